"""Linear segmentation: the class of each pixel from frozen patch tokens."""

import contextlib
import dataclasses
import functools
import logging
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt8

from vit_jax import registry, rngs
from vit_jax.config import schema
from vit_jax.data.segmentation import mask_batches, masks
from vit_jax.data.segmentation.masks import MaskFolder
from vit_jax.errors import UserError
from vit_jax.evaluators import contract, joined_maps, segmentation_metrics
from vit_jax.evaluators.segmentation_training import Head, State
from vit_jax.processes import agreement
from vit_jax.sharding import activations
from vit_jax.sharding import mesh as meshes

_HEARTBEAT_STEPS = 20
_FLIP = "linear_segmentation"  # Name of the random stream.

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Dataset:
  """Images and masks, opened.

  Attributes:
    key: Config key, for messages.
    train: Split on which the layer is trained.
    test: Split on which it is measured.
    num_classes: Number of classes in both.
  """

  key: str
  train: MaskFolder
  test: MaskFolder
  num_classes: int


def build(
  name: str, config: schema.LinearSegmentationEval, context: contract.Context
) -> "LinearSegmentation":
  """Opens the data of `config.evals.<name>` and reads all masks.

  Raises:
    UserError: The data are missing or wrong, or the network has too few layers
      or does not accept images of this size.
  """
  key = f"config.evals.{name}"
  _, mask_size = _sides(config, context)
  datasets = {
    data_name: _open(f"{key}.datasets.{data_name}", data, mask_size, context)
    for data_name, data in config.datasets.items()
  }
  return LinearSegmentation(key, config, datasets, context)


def _sides(
  config: schema.LinearSegmentationEval, context: contract.Context
) -> tuple[int, int]:
  """Returns the sides of images and of masks, in pixels."""
  image_size = config.image_size or context.config.model.image_size
  return image_size, config.mask_size or image_size


def _open(
  key: str,
  data: schema.SegmentationDataset,
  mask_size: int,
  context: contract.Context,
) -> Dataset:
  train, test = (
    masks.open_split(
      data.directory or context.config.data_dir,
      split,
      key=key,
      reduce_zero_label=data.reduce_zero_label,
      mask_size=mask_size,
    )
    for split in (data.train_split, data.test_split)
  )
  num_classes = data.num_classes
  if num_classes is None:
    num_classes = 1 + int(max(train.largest.max(), test.largest.max()))
  for split in (train, test):
    split.require_classes(num_classes)
    agreement.check_same(split.fingerprint, f"data of {key}")
  return Dataset(key, train, test, num_classes)


class LinearSegmentation:
  """`linear_segmentation/<dataset>/{miou,pixel_accuracy,class_accuracy}`.

  Args:
    key: Config key of the entry, for messages.
    config: The entry of `config.evals`.
    datasets: Name -> training and test split.
    context: Context of the run.
  """

  def __init__(
    self,
    key: str,
    config: schema.LinearSegmentationEval,
    datasets: Mapping[str, Dataset],
    context: contract.Context,
  ):
    self._prefix = registry.EVALUATORS.get(config.type).prefix
    self._config = config
    self._datasets = datasets
    self._context = context
    self._image_size, self._mask_size = _sides(config, context)
    maps = joined_maps.joined_maps(
      context.config.model, blocks=config.blocks, key=key
    )
    joined_maps.check_image_size(
      context.config.model, self._image_size, key=key
    )
    width = joined_maps.width(maps, context.config.model, self._image_size)
    self._maps = activations.on(context.mesh, maps)
    self._programs = {
      name: self._compiled(
        self._head(width, data.num_classes), self._train_batch_size(data)
      )
      for name, data in datasets.items()
    }

  def run(self, state: contract.EvaluatedState, step: int) -> dict[str, float]:
    """Trains a layer on each dataset and evaluates it.

    Raises:
      UserError: A file is damaged, or the layer is not finite.
    """
    del step  # Writes no files.
    metrics = {}
    for name, data in self._datasets.items():
      init, update, count = self._programs[name]
      head = self._fit(state.eval_params, data, init, update)
      found = self._measure(state.eval_params, head, data, count)
      metrics |= {f"{self._prefix}/{name}/{k}": v for k, v in found.items()}
    return metrics

  def _head(self, width: int, num_classes: int) -> Head:
    config = self._config
    return Head(
      width=width,
      num_classes=num_classes,
      steps=config.steps,
      warmup_steps=config.warmup_steps,
      learning_rate=config.learning_rate,
      weight_decay=config.weight_decay,
    )

  def _train_batch_size(self, data: Dataset) -> int:
    """Returns the examples per update, on any number of devices."""
    return min(self._config.train_batch_size, data.train.num_examples)

  def _compiled(
    self, head: Head, train_batch_size: int
  ) -> tuple[Callable[..., Any], ...]:
    """Compiles the head's initial state, its step, and a batch's counts."""
    replicated = meshes.replicated(self._context.mesh)

    def update(
      state: State, params: Any, batch: Mapping[str, Array]
    ) -> tuple[State, Float[Array, ""]]:
      key = rngs.stream(0, _FLIP, state["step"])
      image, label = flipped(
        key, batch["image"], batch["label"], train_batch_size
      )
      is_example = jnp.arange(len(image)) < train_batch_size
      return head.update(state, self._maps(params, image), label, is_example)

    def count(
      state: State, params: Any, batch: Mapping[str, Array]
    ) -> Int[Array, "3 classes"]:
      maps = self._maps(params, batch["image"])
      logits = head.logits(state, maps, batch["label"].shape[-1])
      return segmentation_metrics.counts(
        logits.argmax(axis=-1), batch["label"], head.num_classes
      )

    jit = functools.partial(jax.jit, out_shardings=replicated)
    return jit(head.init), jit(update, donate_argnums=0), jit(count)

  def _fit(
    self,
    params: Any,
    data: Dataset,
    init: Callable[[], State],
    update: Callable[..., tuple[State, Array]],
  ) -> State:
    config, before, value = self._config, None, None
    batches = mask_batches.train_batches(
      data.train,
      batch_size=self._train_batch_size(data),
      num_steps=config.steps,
      **self._sizes,
    )
    state = init()
    with contextlib.closing(batches):
      for number, batch in enumerate(batches, 1):
        state, value = update(state, params, batch)
        # The host stays one step ahead, so that few batches wait on the
        # devices.
        jax.block_until_ready(before)
        before = value
        if number % _HEARTBEAT_STEPS == 0:
          self._context.heartbeat()
    # The last batch may have no labels, and then always has a loss of 0.
    made = jax.device_get((value, state["params"], state["running"]))
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(made)):
      raise UserError(
        f"{data.key}: the linear layer or its loss is NaN or infinite, so the"
        " network's parameters are damaged, or learning_rate ="
        f" {config.learning_rate:g} is too large; evaluate an earlier"
        " checkpoint, or lower it."
      )
    _logger.info("%s: the last batch has a loss of %.4f.", data.key, made[0])
    return state

  def _measure(
    self,
    params: Any,
    head: State,
    data: Dataset,
    count: Callable[..., Array],
  ) -> dict[str, float]:
    config, total = self._config, np.zeros((3, data.num_classes), np.int64)
    batches = mask_batches.eval_batches(
      data.test,
      batch_size=min(
        config.batch_size or config.train_batch_size, data.test.num_examples
      ),
      **self._sizes,
    )
    with contextlib.closing(batches):
      for batch in batches:
        total += jax.device_get(count(head, params, batch))
        self._context.heartbeat()
    found = segmentation_metrics.measure(total)
    return found | {"num_examples": float(data.test.num_examples)}

  @property
  def _sizes(self) -> dict[str, Any]:
    """Returns the arguments shared by batches of both splits."""
    return {
      "image_size": self._image_size,
      "mask_size": self._mask_size,
      "mesh": self._context.mesh,
    }


def flipped(
  key: Array,
  image: UInt8[Array, "b h w 3"],
  label: UInt8[Array, "b i j"],
  num_examples: int,
) -> tuple[UInt8[Array, "b h w 3"], UInt8[Array, "b i j"]]:
  """Flips each image and its mask horizontally with probability 1/2.

  Images after the first `num_examples` are unchanged, and do not affect the
  others.
  """
  flips = jax.random.bernoulli(key, shape=(num_examples,))
  flips = jnp.pad(flips, (0, len(image) - num_examples))
  return (
    jnp.where(flips[:, None, None, None], image[:, :, ::-1], image),
    jnp.where(flips[:, None, None], label[:, :, ::-1], label),
  )
