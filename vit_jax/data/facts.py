"""Facts about the training data that are needed before anything is built."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from vit_jax import registry, truncate
from vit_jax.config import schema
from vit_jax.data import (
  balanced_order,
  caption_tokens,
  features,
  sources,
  splits,
  targets,
)
from vit_jax.data.balanced_order import BalancedOrder
from vit_jax.data.deduplication import exclusion
from vit_jax.data.digits import sizes as digits_sizes
from vit_jax.data.features import Features
from vit_jax.data.sources import Source
from vit_jax.data.targets import Targets
from vit_jax.errors import UserError
from vit_jax.paper.datasets import DATASETS


@dataclasses.dataclass(frozen=True)
class DataFacts:
  """Facts about the training data, after the ops of the config.

  Attributes:
    num_classes: Number of classes of the head, or of numbers that it predicts;
      None if unknown.
    features: The features of a training batch.
    num_examples: Number of examples in an epoch; None if unknown.
    labelled_classes: Number of classes that labels of the data may have; None
      if unknown or if there are none.
    fingerprint: Identifier of the content of the data.
    class_names: Names of the classes or of the numbers, if known.
    tokenizer: Tokenizer of the captions, if any.
    label_counts: Number of examples of each class, int64 [classes], if known.
      An example with several labels counts for each of them.
    unlabelled: Number of examples with an empty list of labels; 0 if unknown.
    targets: Numbers to predict; None if there are none or the data are not
      available.
    balance: Order for `train.sampling` = 'balanced'; None if it is not
      requested or the data are not available.
  """

  num_classes: int | None
  features: Features
  num_examples: int | None
  labelled_classes: int | None = None
  fingerprint: str = ""
  class_names: Sequence[str] | None = None
  tokenizer: Any = None
  label_counts: np.ndarray | None = None
  unlabelled: int = 0
  targets: Targets | None = None
  balance: BalancedOrder | None = None


def learns_labels(config: schema.Config) -> bool:
  """True if the objective learns from labels."""
  return features.LABEL in registry.OBJECTIVES.get(config.objective.name).needs


def open_data(config: schema.Config) -> Source:
  """Opens the training data without the examples of `train.exclude`.

  Raises:
    UserError: The data are missing, or the excluded examples belong to other
      data.
  """
  source = sources.open_source(
    config.train.dataset,
    config.train.split,
    data_dir=config.data_dir,
    image_key=config.train.image_key,
    label_key=config.train.label_key,
    text_key=config.train.text_key,
    captions=bool(features.parse(config).captions),
    numbers=config.objective.predicts_numbers,
    max_bad_examples=config.train.max_bad_examples,
    shuffle_block=config.train.shuffle_block,
  )
  if config.train.exclude is None:
    return source
  return exclusion.without(
    source, config.train.exclude, key="config.train.exclude"
  )


def declare(
  config: schema.Config,
  *,
  num_classes: int | None,
  max_labels: int = 1,
  num_numbers: int = 0,
  num_examples: int | None,
  fingerprint: str = "",
  class_names: Sequence[str] | None = None,
) -> DataFacts:
  """Derives the facts from those of a dataset and the ops of the config.

  Args:
    config: Config of the experiment; `model.num_classes` overrides that of the
      data.
    num_classes, max_labels, class_names: Values of the dataset; None, 0 and
      None if it has no classes.
    num_numbers: Number of numbers to predict in the dataset.
    num_examples, fingerprint: As in `DataFacts`.

  Raises:
    UserError: The ops cannot be parsed or do not suit the labels.
  """
  parsed = features.parse(config)
  num_classes, declared = parsed.suited_to(num_classes, max_labels, num_numbers)
  labelled_classes = num_classes
  if config.objective.predicts_numbers:
    num_classes, labelled_classes = num_numbers, None
  return DataFacts(
    num_classes=config.model.num_classes or num_classes,
    features=declared,
    num_examples=num_examples,
    labelled_classes=labelled_classes,
    fingerprint=fingerprint,
    class_names=None if parsed.label_ops.renumbers else class_names,
  )


def of_source(config: schema.Config, source: Source) -> DataFacts:
  """Returns the facts of the opened training data.

  Raises:
    UserError: The ops do not suit the data, `model.num_classes` is less than
      the number of classes, the tokenizer does not suit the model, or labels
      are numbers and the objective learns classes, or vice versa.
  """
  _check_numbers(config, source)
  facts = declare(
    config,
    num_classes=source.num_classes,
    max_labels=source.max_labels,
    num_numbers=len(source.numbers),
    num_examples=source.num_examples,
    fingerprint=source.fingerprint,
    class_names=source.class_names,
  )
  num_classes, _ = facts.features.label_ops.label_space(
    source.num_classes, source.max_labels
  )
  if num_classes is not None and num_classes > schema.MAX_SIZE:
    raise UserError(
      f"config.train.dataset = {config.train.dataset!r} has a class of number"
      f" {num_classes - 1}, and so {num_classes} classes, of which a head can"
      f" have {schema.MAX_SIZE}; number the classes from 0 without gaps."
    )
  if num_classes is not None and facts.num_classes < num_classes:
    raise UserError(
      f"config.model.num_classes = {facts.num_classes} is less than the"
      f" {num_classes} classes of {config.train.dataset}; leave it unset to"
      " take the dataset's."
    )
  is_one = facts.num_classes == 1 and facts.features.max_labels == 1
  if is_one and getattr(config.objective, "loss", None) == "softmax":
    raise UserError(
      f"config.train.dataset = {config.train.dataset!r} has one class, 0; a"
      " classifier needs two or more. config.train.label_key names what"
      " holds the class."
      if source.num_classes == 1
      else f"config.train.preprocess = {config.train.preprocess!r} leaves one"
      " class, and a classifier needs two or more; let remap keep more, or set"
      " config.objective.loss = 'sigmoid'."
    )
  if config.objective.predicts_numbers:
    found = targets.of_source(source, dataset=config.train.dataset)
    facts = dataclasses.replace(facts, targets=found, class_names=found.names)
  elif _counts_labels(config, source, facts.features):
    labels = source.known_labels()
    if labels is not None:
      if labels.ndim == 2 and facts.features.max_labels == 1:
        labels = labels[:, :1]  # By `pad_labels(1)`.
      present = labels >= 0  # -1 is no label, or pads a list.
      counts = np.bincount(labels[present], minlength=source.num_classes)
      # An example without its only label is one of the bad examples.
      unlabelled = np.sum(~present.any(axis=1)) if labels.ndim == 2 else 0
      facts = dataclasses.replace(
        facts, label_counts=counts, unlabelled=int(unlabelled)
      )
  if config.train.sampling == "balanced":
    balance = balanced_order.of_source(
      source,
      renumbers=facts.features.label_ops.renumbers,
      dataset=config.train.dataset,
    )
    facts = dataclasses.replace(facts, balance=balance)
  captions = facts.features.captions
  if captions is None:
    return facts
  if "text" not in source.features:
    raise UserError(
      f"{captions.call.where}: config.train.dataset = {config.train.dataset!r}"
      " has no captions; leave it out, or name a dataset that has."
    )
  tokenizer = caption_tokens.of_captions(captions)
  return dataclasses.replace(
    facts,
    fingerprint=f"{source.fingerprint}:tokens:{tokenizer.fingerprint}",
    tokenizer=tokenizer,
  )


def _check_numbers(config: schema.Config, source: Source) -> None:
  """Raises UserError if only one of data and objective has numbers."""
  dataset, num_classes = config.train.dataset, config.model.num_classes
  if config.objective.predicts_numbers:
    if not source.numbers:
      raise targets.lacking(config.objective.loss, dataset)
    if num_classes not in (None, len(source.numbers)):
      raise UserError(
        f"config.model.num_classes = {num_classes}, and {dataset} has"
        f" {len(source.numbers)} numbers to predict,"
        f" {truncate.first(source.numbers)}; leave it unset."
      )
  elif source.numbers and learns_labels(config):
    raise UserError(
      f"config.train.dataset = {dataset!r} has numbers instead of classes; to"
      " predict them, set config.objective.loss = 'mse'."
    )


def _counts_labels(
  config: schema.Config, source: Source, features: Features
) -> bool:
  """True if the number of examples of each class is needed."""
  wanted = getattr(config.objective, "class_weights", None) == "balanced"
  named = source.class_names or source.max_labels > 1
  shown = named or learns_labels(config)
  return not features.label_ops.renumbers and bool(wanted or shown)


def without_data(config: schema.Config) -> DataFacts:
  """Returns facts from the config and published sizes of known datasets.

  Raises:
    UserError: Neither gives the number of classes, or the number of examples if
      the run's length is in epochs.
  """
  dataset, train = config.train.dataset, config.train
  num_classes, num_examples, max_labels = config.model.num_classes, None, 1
  num_numbers = 0
  if dataset == "captions":
    num_classes, max_labels = None, 0
  known = DATASETS.get(dataset.partition(":")[0])
  known = digits_sizes.SIZES if dataset == "digits" else known
  if dataset.startswith("generated"):
    source = sources.open_source(dataset, train.split, data_dir=None)
    num_classes, num_examples = source.num_classes, source.num_examples
    max_labels, num_numbers = source.max_labels, len(source.numbers)
  elif known is not None:
    num_classes = known.num_classes or num_classes
    pieces = splits.resolve(
      train.split,
      {name: [count] for name, count in known.num_examples.items()},
      dataset=dataset,
    )
    num_examples = splits.count(pieces)
  missing = []
  if num_classes is None and not num_numbers:
    if learns_labels(config) and not features.parse(config).captions:
      missing.append("config.model.num_classes")
    max_labels = 0
  if num_examples is None and config.total_steps is None:
    missing.append("config.total_steps")
  if missing:
    raise UserError(
      f"The data are not looked at, and {dataset} is not one of the datasets"
      f" whose size is known ({', '.join(DATASETS)}); set"
      f" {' and '.join(missing)}."
    )
  if config.objective.predicts_numbers:
    num_classes, max_labels = None, 0
    num_numbers = num_numbers or config.model.num_classes
  return declare(
    config,
    num_classes=num_classes,
    max_labels=max_labels,
    num_numbers=num_numbers,
    num_examples=num_examples,
  )


def find(config: schema.Config) -> tuple[DataFacts, UserError | None]:
  """Returns the facts of the data if available, else the known facts.

  Returns:
    The facts, and an error about missing data, if any.

  Raises:
    UserError: The data are missing, and `without_data` raises.
  """
  try:
    return of_source(config, open_data(config)), None
  except UserError as missing:
    try:
      return without_data(config), missing
    except UserError:
      raise missing from None
