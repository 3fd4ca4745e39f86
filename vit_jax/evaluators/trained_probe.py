"""Linear probes with the published protocols of DINO, DINOv2 and MAE."""

import contextlib
import dataclasses
import itertools
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.data import spec
from vit_jax.errors import UserError
from vit_jax.evaluators import contract, probe_training, shots
from vit_jax.evaluators.features import Extractor
from vit_jax.evaluators.probe_protocols import Protocol
from vit_jax.evaluators.split import Split
from vit_jax.models import build as models_build
from vit_jax.models import features as models_features
from vit_jax.sharding import activations
from vit_jax.sharding import mesh as meshes

_logger = logging.getLogger(__name__)

_JOINED = "features of the last layers"


class TrainedProbe:
  """Measures a protocol's `linear_probe/<dataset>/top1` on the test split.

  With several classifiers it is that of the best, which `learning_rate`,
  `blocks` and `average_patches` (0 or 1) identify; ties go to the first in the
  order of blocks, patches and rates.

  Args:
    config: Entry of `config.evals`.
    protocol: Its protocol.
    datasets: Name -> training and test split.
    context: Context of the run.
  """

  def __init__(
    self,
    config: schema.LinearProbeEval,
    protocol: Protocol,
    datasets: Mapping[str, tuple[Split, Split]],
    context: contract.Context,
  ):
    self._prefix = registry.EVALUATORS.get(config.type).prefix
    self._augment = config.augment
    self._protocol = protocol
    self._datasets = datasets
    self._mesh = context.mesh
    representation = config.representation
    if protocol.blocks:
      representation = _JOINED
      outputs = joined_layers(
        context.config.model,
        count=protocol.max_blocks,
        has_patches=protocol.has_patches,
      )
      context = dataclasses.replace(
        context, outputs=activations.on(context.mesh, outputs)
      )
    self._extract = Extractor(representation, context)
    self._trainers = {
      name: self._trainer(train, context)
      for name, (train, _) in datasets.items()
    }

  def run(self, state: contract.EvaluatedState, step: int) -> dict[str, float]:
    """Trains and tests on each dataset.

    Raises:
      UserError: A label is not a class, or a feature is not finite.
    """
    del step  # Writes no files.
    metrics = {}
    for name, (train, test) in self._datasets.items():
      try:
        found = self._measure(
          state.eval_params, train, test, self._trainers[name]
        )
      except shots.ExamplesError as error:
        raise UserError(f"{train.key}: {error}") from None
      metrics |= {f"{self._prefix}/{name}/{k}": v for k, v in found.items()}
    return metrics

  def _measure(
    self,
    params: Any,
    train: Split,
    test: Split,
    trainer: probe_training.Trainer,
  ) -> dict[str, float]:
    num_classes = train.num_classes
    tested = self._extract(params, test)
    shots.require_classes(tested.labels, num_classes=num_classes)
    if self._augment:
      batches = self._augmented(params, train)
    else:
      examples = self._extract(params, train)
      shots.require_classes(examples.labels, num_classes=num_classes)
      batches = probe_training.shuffled(
        examples,
        batch_size=self._batch_size(train),
        epochs=self._protocol.epochs,
        mesh=self._mesh,
      )
    fitted = trainer.fit(tested.features.shape[1], batches)
    return self._best(trainer.accuracies(fitted, tested))

  def _best(self, accuracies: list[float]) -> dict[str, float]:
    settings = self._protocol.settings
    for setting, accuracy in zip(settings, accuracies, strict=True):
      _logger.info("%s: %.4f on the test split.", setting, accuracy)
    best = int(np.argmax(accuracies))
    found = {"top1": accuracies[best]}
    if len(settings) > 1:
      chosen = dataclasses.asdict(settings[best])
      found |= {key: float(value) for key, value in chosen.items()}
    return found

  def _augmented(
    self, params: Any, train: Split
  ) -> Iterator[tuple[Array, Array]]:
    """Yields features of augmented images, computed for each step."""
    preprocess = spec.check(
      self._augment,
      image_size=train.preprocess.image_size,
      where=f"{train.key}: augment",
    )
    size = self._batch_size(train)
    num_steps = self._protocol.epochs * max(train.num_examples // size, 1)
    endless = train.train_batches(preprocess, size)
    with contextlib.closing(endless) as batches:
      for batch in itertools.islice(batches, num_steps):
        rows = self._extract.compute(params, batch)
        shots.require_classes(
          jax.device_get(rows["label"]), num_classes=train.num_classes
        )
        yield rows["feature"], rows["label"]

  def _batch_size(self, train: Split) -> int:
    size = self._protocol.batch_size(train.num_examples)
    if not self._augment:
      return size
    shards = meshes.batch_shards(self._mesh)  # Shards of the images.
    return -(-size // shards) * shards

  def _trainer(
    self, train: Split, context: contract.Context
  ) -> probe_training.Trainer:
    size = self._batch_size(train)
    return probe_training.Trainer(
      self._protocol,
      num_classes=train.num_classes,
      batch_size=size,
      steps_per_epoch=max(train.num_examples // size, 1),
      mesh=context.mesh,
      heartbeat=context.heartbeat,
    )


def joined_layers(
  model: schema.Model, *, count: int, has_patches: bool
) -> Callable[[Any, Mapping[str, Any]], dict[str, Float[Array, "b d"]]]:
  """Builds outputs like an objective's: joined last class tokens.

  Args:
    model: The network whose parameters are passed to the outputs.
    count: Number of last layers, in order.
    has_patches: True if the mean of the last layer's patches is appended.
  """
  network = models_build.create(model, num_classes=None)

  def outputs(
    params: Any, batch: Mapping[str, Any]
  ) -> dict[str, Float[Array, "b d"]]:
    tokens, patches = models_features.last_layers(
      network, params, batch["image"], count
    )
    parts = [tokens[:, layer] for layer in range(count)]
    parts += [patches] if has_patches else []
    parts = [part.astype(jnp.float32) for part in parts]
    return {_JOINED: jnp.concatenate(parts, axis=1)}

  return outputs
