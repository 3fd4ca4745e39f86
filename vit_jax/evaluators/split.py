"""A split of a dataset, opened once and read once for every evaluation."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from jax.sharding import Mesh

from vit_jax.errors import UserError
from vit_jax.evaluators.contract import Context


@dataclasses.dataclass(frozen=True)
class Split:
  """Examples in a fixed order, each exactly once.

  Attributes:
    key: the config key of the evaluator, for messages.
    source: an opened `vit_jax.data.sources.Source`.
    num_classes: classes of the labels, after the label ops.
    max_labels: labels per example, after the label ops.
    class_names: those of the source, unless the label ops renumber classes.
    preprocess: string of host ops.
    image_size: side of the images, pixels.
    batch_size: examples on all devices together.
    mesh: what batches are sharded over.
  """

  key: str
  source: Any
  num_classes: int
  max_labels: int
  class_names: tuple[str, ...] | None
  preprocess: str
  image_size: int
  batch_size: int
  mesh: Mesh

  @property
  def num_examples(self) -> int:
    return self.source.num_examples

  def batches(self) -> Iterator[dict[str, Any]]:
    """Global arrays image, label, mask (False: padding) and id."""
    from vit_jax.data import pipeline

    return pipeline.eval_batches(
      self.source,
      preprocess=self.preprocess,
      image_size=self.image_size,
      batch_size=min(self.batch_size, self.num_examples),
      mesh=self.mesh,
      where=f"{self.key}.preprocess",
    )


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
  """Opens the data of an evaluator.

  Args:
    context: of the run.
    key: the evaluator's config key, for messages.
    dataset: as `train.dataset`.
    split: TFDS split string.
    preprocess: host ops.
    batch_size: examples a batch; None: `train.batch_size`.
    image_key: feature that holds the image.
    label_key: feature that holds the label or labels.
    label_sets: file of sets of labels that take their place.

  Raises:
    UserError: there is no such data, the split is empty, its examples have no
      labels, or those of the file are not theirs.
  """
  from vit_jax.data import label_sets as label_files
  from vit_jax.data import sources, spec

  source = sources.open_source(
    dataset,
    split,
    data_dir=context.config.data_dir,
    image_key=image_key,
    label_key=label_key,
  )
  if not source.num_examples:
    raise UserError(
      f"{key}: split {split!r} of {dataset!r} has no examples; choose another."
    )
  if label_sets is not None:
    accepted = label_files.read(label_sets, key=f"{key}.label_sets")
    source = label_files.relabel(source, accepted)
  ops = spec.check(
    preprocess,
    image_size=context.config.model.image_size,
    where=f"{key}.preprocess",
    train=False,
  )
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
    preprocess=preprocess,
    image_size=context.config.model.image_size,
    batch_size=batch_size or context.config.train.batch_size,
    mesh=context.mesh,
  )
