"""A split of a dataset, opened once and read once per evaluation."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Int, UInt8

from vit_jax import rngs
from vit_jax.config import schema
from vit_jax.data.spec import Preprocess
from vit_jax.sharding import mesh as meshes

_PREFETCH_BATCHES = 2


@dataclasses.dataclass(frozen=True)
class Split:
  """Examples in a fixed order, each exactly once.

  Attributes:
    key: Config key of the evaluator, for messages.
    source: An opened `vit_jax.data.sources.Source`.
    num_classes: Number of classes, after the label ops; None if there are no
      labels.
    max_labels: Labels per example, after the label ops.
    class_names: Names of the classes, unless the label ops renumber them.
    preprocess: Host ops.
    batch_size: Number of examples on all devices together.
    mesh: Devices over which batches are sharded.
  """

  key: str
  source: Any
  num_classes: int | None
  max_labels: int
  class_names: tuple[str, ...] | None
  preprocess: Preprocess
  batch_size: int
  mesh: Mesh

  @property
  def num_examples(self) -> int:
    return self.source.num_examples

  def names(self, ids: Int[np.ndarray, " n"]) -> list[str]:
    """Returns names of examples, or their numbers if names need reading."""
    if self.source.reads_names:
      return [str(i) for i in ids]
    return self.source.names(ids)

  def batches(self) -> Iterator[dict[str, Any]]:
    """Yields global arrays image, label, mask (False for padding) and id."""
    from vit_jax.data import pipeline

    return pipeline.eval_batches(
      self.source,
      preprocess=self.preprocess,
      batch_size=min(self.batch_size, self.num_examples),
      mesh=self.mesh,
    )

  def train_batches(
    self, preprocess: Preprocess, batch_size: int
  ) -> Iterator[dict[str, Any]]:
    """Yields endless shuffled batches of the global arrays image and label.

    The order and the random numbers of the ops are always the same.

    Args:
      preprocess: Training ops, instead of the split's ops.
      batch_size: Number of examples on all devices together, divisible by the
        devices.
    """
    from vit_jax.data import features, pipeline

    declared = features.of_images(preprocess).of_source(self.source)
    replicated = meshes.replicated(self.mesh)

    def on_device(batch, step):
      keys = functools.partial(rngs.stream, 0, step=step)
      return declared.on_device(batch, keys), step + 1

    advance = jax.jit(
      on_device,
      out_shardings=(meshes.batch_sharding(self.mesh), replicated),
    )
    step = jax.jit(lambda: jnp.int32(0), out_shardings=replicated)()
    batches = pipeline.TrainBatches(
      self.source,
      features=declared,
      batch_size=batch_size,
      seed=0,
      shuffle_block=schema.Train().shuffle_block,
      first_example=0,
      mesh=self.mesh,
      prefetch_batches=_PREFETCH_BATCHES,
    )
    with contextlib.closing(batches):
      for batch in batches:
        batch, step = advance(batch, step)
        yield batch

  def images(
    self, ids: Int[np.ndarray, " n"]
  ) -> UInt8[np.ndarray, "n side side 3"]:
    """Returns some of the images for display."""
    from vit_jax.data import pipeline

    return pipeline.images(self.source, ids, preprocess=self.preprocess)

  def measured(
    self,
    measure: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    after_batch: Callable[[Mapping[str, Any], Mapping[str, np.ndarray]], None],
  ) -> dict[str, np.ndarray]:
    """Returns the results of `measure` for all examples, in the split's order.

    Args:
      measure: Maps a global batch to rows on every process, including the
        batch's `id` and `mask`.
      after_batch: Called with each batch and its rows, including padding.
    """
    collected = []
    for batch in self.batches():
      rows = jax.device_get(measure(batch))
      after_batch(batch, rows)
      collected.append({k: v[rows["mask"]] for k, v in rows.items()})
    rows = {k: np.concatenate([c[k] for c in collected]) for k in collected[0]}
    order = np.argsort(rows["id"])
    assert np.array_equal(rows["id"][order], np.arange(self.num_examples))
    return {k: v[order] for k, v in rows.items()}
