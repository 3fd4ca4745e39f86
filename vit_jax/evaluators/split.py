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
from vit_jax.errors import UserError
from vit_jax.evaluators.contract import Context
from vit_jax.processes import agreement
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


def open_split(
  context: Context,
  *,
  key: str,
  dataset: str,
  split: str,
  preprocess: str,
  batch_size: int | None,
  image_key: str,
  label_key: str,
  label_sets: str | None = None,
) -> Split:
  """Opens the data of an evaluator; messages name its config key `key`.

  The other arguments are the values of its keys of the same names. If
  `batch_size` is None, that of training is used; the file `label_sets` replaces
  labels.

  Raises:
    UserError: The data is missing, the split is empty, its examples have no
      labels, or the file belongs to other examples.
  """
  from vit_jax.data import label_sets as label_files

  source = _open(
    context,
    key,
    dataset,
    split,
    image_key=image_key,
    label_key=label_key,
    captions=False,
  )
  if source.numbers:
    raise UserError(
      f"{key}: {dataset!r} has numbers instead of classes, which an evaluator"
      ' of type "regression" compares with.'
    )
  if source.num_classes is None:
    raise UserError(
      f"{key}: {dataset!r} has no labels, which an evaluation compares with;"
      " choose a dataset that has."
    )
  if label_sets is not None:
    accepted = label_files.read(label_sets, key=f"{key}.label_sets")
    source = label_files.relabel(source, accepted)
    agreement.check_same(source.fingerprint, f"label sets of {key}")
  ops = _preprocess(context, key, preprocess)
  if not ops.has_labels:
    raise UserError(
      f'{key}.preprocess = "{preprocess}" drops the labels that an evaluation'
      " compares with; keep them."
    )
  num_classes, max_labels = ops.label_space(
    source.num_classes, source.max_labels
  )
  return Split(
    key=key,
    source=source,
    num_classes=num_classes,
    max_labels=max_labels,
    class_names=None if ops.renumbers else source.class_names,
    preprocess=ops,
    batch_size=batch_size or context.config.train.batch_size,
    mesh=context.mesh,
  )


def open_captioned_split(
  context: Context,
  *,
  key: str,
  dataset: str,
  split: str,
  preprocess: str,
  batch_size: int | None,
  image_key: str,
  text_key: str | None,
) -> Split:
  """Opens images and captions; ignores any labels.

  The arguments are those of `open_split`. If `text_key` is None and the dataset
  is the training dataset, that of training is used.

  Raises:
    UserError: The data is missing, the split is empty, or its examples have no
      captions.
  """
  train = context.config.train
  if text_key is None and dataset == train.dataset:
    text_key = train.text_key
  source = _open(
    context, key, dataset, split, image_key=image_key, text_key=text_key
  )
  if "text" not in source.features:
    raise UserError(
      f"{key}: {dataset!r} has no captions, which a retrieval searches; choose"
      " a dataset that has."
    )
  return Split(
    key=key,
    source=source,
    num_classes=source.num_classes,
    max_labels=source.max_labels,
    class_names=None,
    preprocess=_preprocess(context, key, preprocess),
    batch_size=batch_size or context.config.train.batch_size,
    mesh=context.mesh,
  )


def open_numbers_split(
  context: Context,
  *,
  key: str,
  dataset: str,
  split: str,
  preprocess: str,
  batch_size: int | None,
  image_key: str,
  label_key: str,
) -> Split:
  """Opens images and the numbers to predict for them.

  The arguments are those of `open_split`.

  Raises:
    UserError: The data is missing, the split is empty, or its examples have no
      numbers.
  """
  source = _open(
    context,
    key,
    dataset,
    split,
    image_key=image_key,
    label_key=label_key,
    numbers=True,
    captions=False,
  )
  if not source.numbers:
    raise UserError(
      f"{key}: {dataset!r} has no numbers to predict, which an evaluator of"
      ' type "regression" compares with; name a CSV file of them, or the field'
      " or column that holds them by label_key."
    )
  ops = _preprocess(context, key, preprocess)
  if not ops.has_labels:
    raise UserError(
      f'{key}.preprocess = "{preprocess}" drops the numbers that an evaluation'
      " compares with; keep the labels."
    )
  return Split(
    key=key,
    source=source,
    num_classes=None,
    max_labels=0,
    class_names=None,
    preprocess=ops,
    batch_size=batch_size or context.config.train.batch_size,
    mesh=context.mesh,
  )


def open_image_split(
  context: Context,
  *,
  key: str,
  dataset: str,
  split: str,
  preprocess: str,
  batch_size: int | None,
  image_key: str,
) -> Split:
  """Opens only images; ignores any labels.

  The arguments are those of `open_split`.

  Raises:
    UserError: The data is missing, or the split is empty.
  """
  source = _open(
    context, key, dataset, split, image_key=image_key, captions=False
  )
  return Split(
    key=key,
    source=source,
    num_classes=source.num_classes,
    max_labels=source.max_labels,
    class_names=None,
    preprocess=_preprocess(context, key, preprocess),
    batch_size=batch_size or context.config.train.batch_size,
    mesh=context.mesh,
  )


def _open(
  context: Context, key: str, dataset: str, split: str, **keys: Any
) -> Any:
  from vit_jax.data import sources

  try:
    source = sources.open_source(
      dataset,
      split,
      data_dir=context.config.data_dir,
      shuffle_block=context.config.train.shuffle_block,
      **keys,
    )
  except UserError as error:
    raise UserError(f"{key}: {error}") from None
  if not source.num_examples:
    raise UserError(
      f"{key}: split {split!r} of {dataset!r} has no examples; choose another."
    )
  agreement.check_same(source.fingerprint, f"data of {key}")
  return source


def _preprocess(context: Context, key: str, preprocess: str) -> Preprocess:
  from vit_jax.data import spec

  return spec.check(
    preprocess,
    image_size=context.config.model.image_size,
    where=f"{key}.preprocess",
    train=False,
  )
