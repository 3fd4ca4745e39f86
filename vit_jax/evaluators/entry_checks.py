"""Checks and phrases shared by the declarations of evaluators."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.data import sources, spec
from vit_jax.data import splits as split_strings
from vit_jax.errors import UserError
from vit_jax.suggestions import did_you_mean

# Outputs of an objective that are one vector per image.
REPRESENTATIONS = ("pre_logits", "logits")
# Names become parts of metrics and of paths.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def check_name(name: str, key: str) -> None:
  """Raises UserError unless `name` can be part of a metric and a path."""
  if not _NAME.fullmatch(name):
    raise UserError(
      f"{key} has the name {name!r}, which becomes part of metrics and file"
      " names; use letters, digits, '_', '-' and '.'."
    )


def features(
  key: str, example: str
) -> Callable[[str, schema.FeaturesEval, schema.Config], None]:
  """Returns the check of an evaluator on frozen features.

  Args:
    key: Key of an entry whose values must differ, such as 'shots'.
    example: Such values, for the message.

  Returns:
    A function of (name, entry, config). It raises UserError for equal or
    missing values, for a representation or data that do not exist, or for a
    dataset with the same name as one of an earlier entry whose metrics have the
    same prefix.
  """

  def check(
    name: str, entry: schema.FeaturesEval, config: schema.Config
  ) -> None:
    check_different(f"config.evals.{name}.{key}", getattr(entry, key), example)
    check_features(name, entry, config)

  return check


def check_different(key: str, values: Sequence[Any], example: str) -> None:
  """Raises UserError unless there are values and all differ."""
  if not values or len(set(values)) != len(values):
    raise UserError(
      f"{key} = {values} must be different numbers, such as {example}."
    )


def check_features(
  name: str, entry: schema.FeaturesEval, config: schema.Config
) -> None:
  """Checks the keys shared by all evaluators on frozen features.

  Raises:
    UserError: The representation or data do not exist, or a dataset has the
      same name as one of an earlier entry whose metrics have the same prefix.
  """
  key = f"config.evals.{name}"
  if entry.representation not in REPRESENTATIONS:
    near = did_you_mean(entry.representation, REPRESENTATIONS, cutoff=0.0)
    raise UserError(
      f"{key}.representation = {entry.representation!r} is not known; did you"
      f" mean {near!r}? Known: {', '.join(REPRESENTATIONS)}."
    )
  check_datasets(name, config, ("train_split", "test_split"))


def check_datasets(
  name: str, config: schema.Config, splits: Sequence[str] = ("split",)
) -> None:
  """Checks `config.evals.<name>.datasets` without opening them.

  Args:
    name: Name of the entry.
    config: The experiment.
    splits: Keys of each dataset that are splits.

  Raises:
    UserError: A key is wrong, or `check_dataset_names` raises it.
  """
  check_dataset_names(name, config)
  for data_name, data in config.evals[name].datasets.items():
    _check_data(
      f"config.evals.{name}.datasets.{data_name}",
      data.dataset,
      {key: getattr(data, key) for key in splits},
      data.preprocess,
      config,
    )


def check_dataset_names(name: str, config: schema.Config) -> None:
  """Checks the names in `config.evals.<name>.datasets`.

  Raises:
    UserError: A name cannot be part of a metric, or an earlier entry reports
      its metrics under the same names.
  """
  entry = config.evals[name]
  key, prefix = f"config.evals.{name}", _prefix(entry)
  taken: dict[str, str] = {}
  for other, one in config.evals.items():
    if other == name:
      break
    if _prefix(one) == prefix:
      taken |= {data: f"config.evals.{other}.datasets" for data in one.datasets}
  for data in entry.datasets:
    check_name(data, f"{key}.datasets")
    if data in taken:
      raise UserError(
        f"{key}.datasets.{data} and {taken[data]}.{data} would both be reported"
        f" as {prefix}/{data}; rename one."
      )


def _prefix(entry: schema.Eval) -> str:
  return registry.EVALUATORS.get(entry.type).prefix


def check_texts(name: str, config: schema.Config) -> None:
  """Raises UserError for `config.evals.<name>` of a model without text."""
  if registry.FAMILIES.get(config.model.name).has_text:
    return
  raise UserError(
    f'config.evals.{name} of type "{config.evals[name].type}" compares images'
    f" with texts, but config.model.name = {config.model.name!r} has no text"
    ' tower; use "two_towers".'
  )


def check_split(name: str, entry: Any, config: schema.Config) -> None:
  """Checks the data of an entry that uses a single split.

  Raises:
    UserError: Its dataset, split or preprocessing is wrong.
  """
  _check_data(
    f"config.evals.{name}",
    entry.dataset or config.train.dataset,
    {"split": entry.split},
    entry.preprocess,
    config,
  )


def _check_data(
  key: str,
  dataset: str,
  splits: dict[str, str],
  preprocess: str,
  config: schema.Config,
) -> None:
  """Checks the keys of a dataset without opening it.

  Args:
    key: Config key of the group to which the keys belong.
    dataset: Dataset, as in `train.dataset`.
    splits: Split strings by the last part of their key.
    preprocess: Host ops.
    config: The experiment, which determines the image size.

  Raises:
    UserError: A key is wrong.
  """
  _check_part(f"{key}.dataset", sources.check, dataset)
  for name, split in splits.items():
    _check_part(f"{key}.{name}", split_strings.parse, split)
  spec.check(
    preprocess,
    config.model.image_size,
    where=f"{key}.preprocess",
    train=False,
    dataset=dataset,
  )


def objective(config: schema.Config) -> str:
  """Returns the objective's name for messages about unsupported features."""
  if config.objective.name == "supervised":
    return f"config.objective.loss = {config.objective.loss!r}"
  return f'objective "{config.objective.name}"'


def listed(values: Sequence[float] | Sequence[int]) -> str:
  """Formats values in ascending order: '1, 2 and 3'."""
  *most, last = (f"{value:g}" for value in sorted(values))
  return f"{', '.join(most)} and {last}" if most else last


def _check_part(key: str, check_text: Callable[[str], None], text: str) -> None:
  try:
    check_text(text)
  except UserError as error:
    raise UserError(f"{key}: {error}") from None
