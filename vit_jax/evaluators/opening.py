"""Opens the splits that evaluators measure.

Messages name the config key of the evaluator.
"""

import dataclasses
from typing import Any

from vit_jax.errors import UserError
from vit_jax.evaluators.contract import Context
from vit_jax.evaluators.split import Split
from vit_jax.processes import agreement


def open_image_split(
  context: Context,
  *,
  key: str,
  dataset: str,
  split: str,
  preprocess: str,
  batch_size: int | None,
  image_key: str,
  **others: Any,
) -> Split:
  """Opens images, whose labels may be missing.

  Args:
    context: What evaluators are built from.
    key: Config key of the evaluator, for messages.
    dataset: Value of the evaluator's key of this name, as are `split`,
      `preprocess` and `image_key`.
    split: Name of the split.
    preprocess: Host ops.
    batch_size: Examples on all devices together; None for that of training.
    image_key: Feature that holds the image.
    **others: Further arguments of `vit_jax.data.sources.open_source`; without
      them no captions are read.

  Raises:
    UserError: The data is missing, or the split is empty.
  """
  from vit_jax.data import sources, spec

  others = {"captions": False} | others
  try:
    source = sources.open_source(
      dataset,
      split,
      data_dir=context.config.data_dir,
      shuffle_block=context.config.train.shuffle_block,
      image_key=image_key,
      **others,
    )
  except UserError as error:
    raise UserError(f"{key}: {error}") from None
  if not source.num_examples:
    raise UserError(
      f"{key}: split {split!r} of {dataset!r} has no examples; choose another."
    )
  agreement.check_same(source.fingerprint, f"data of {key}")
  ops = spec.check(
    preprocess,
    image_size=context.config.model.image_size,
    where=f"{key}.preprocess",
    train=False,
  )
  return Split(
    key=key,
    source=source,
    num_classes=source.num_classes,
    max_labels=source.max_labels,
    class_names=None,
    preprocess=ops,
    batch_size=batch_size or context.config.train.batch_size,
    mesh=context.mesh,
  )


def open_split(
  context: Context,
  *,
  label_key: str,
  label_sets: str | None = None,
  **images: Any,
) -> Split:
  """Opens images and their classes.

  Args:
    context: What evaluators are built from.
    label_key: Feature that holds the labels.
    label_sets: File of labels that replace those of the dataset.
    **images: Arguments of `open_image_split`.

  Raises:
    UserError: The data is missing, the split is empty, its examples have no
      labels, or the file belongs to other examples.
  """
  from vit_jax.data import label_sets as label_files

  opened = open_image_split(context, label_key=label_key, **images)
  key, source = opened.key, opened.source
  if source.numbers:
    raise UserError(
      f"{key}: {images['dataset']!r} has numbers instead of classes, which an"
      ' evaluator of type "regression" compares with.'
    )
  if source.num_classes is None:
    raise UserError(
      f"{key}: {images['dataset']!r} has no labels, which an evaluation"
      " compares with; choose a dataset that has."
    )
  if label_sets is not None:
    accepted = label_files.read(label_sets, key=f"{key}.label_sets")
    source = label_files.relabel(source, accepted)
    agreement.check_same(source.fingerprint, f"label sets of {key}")
  ops = opened.preprocess
  if not ops.has_labels:
    raise UserError(
      f'{key}.preprocess = "{images["preprocess"]}" drops the labels that an'
      " evaluation compares with; keep them."
    )
  num_classes, max_labels = ops.label_space(
    source.num_classes, source.max_labels
  )
  return dataclasses.replace(
    opened,
    source=source,
    num_classes=num_classes,
    max_labels=max_labels,
    class_names=None if ops.renumbers else source.class_names,
  )


def open_captioned_split(
  context: Context, *, text_key: str | None, **images: Any
) -> Split:
  """Opens images and captions; ignores any labels.

  Args:
    context: What evaluators are built from.
    text_key: Feature that holds the captions; None for that of training if the
      dataset is the training dataset.
    **images: Arguments of `open_image_split`.

  Raises:
    UserError: The data is missing, the split is empty, or its examples have no
      captions.
  """
  train = context.config.train
  if text_key is None and images["dataset"] == train.dataset:
    text_key = train.text_key
  opened = open_image_split(context, captions=True, text_key=text_key, **images)
  if "text" not in opened.source.features:
    raise UserError(
      f"{opened.key}: {images['dataset']!r} has no captions, which a retrieval"
      " searches; choose a dataset that has."
    )
  return opened


def open_numbers_split(
  context: Context, *, label_key: str, **images: Any
) -> Split:
  """Opens images and the numbers to predict for them.

  Args:
    context: What evaluators are built from.
    label_key: Feature or column that holds the numbers.
    **images: Arguments of `open_image_split`.

  Raises:
    UserError: The data is missing, the split is empty, or its examples have no
      numbers.
  """
  opened = open_image_split(
    context, label_key=label_key, numbers=True, **images
  )
  if not opened.source.numbers:
    raise UserError(
      f"{opened.key}: {images['dataset']!r} has no numbers to predict, which an"
      ' evaluator of type "regression" compares with; name a CSV file of them,'
      " or the field or column that holds them by label_key."
    )
  if not opened.preprocess.has_labels:
    raise UserError(
      f'{opened.key}.preprocess = "{images["preprocess"]}" drops the numbers'
      " that an evaluation compares with; keep the labels."
    )
  return dataclasses.replace(opened, num_classes=None, max_labels=0)
