"""From `config.evals` to evaluators."""

import difflib
import re
from collections.abc import Callable

from etils import epy

from vit_jax.config import schema
from vit_jax.data import sources, spec
from vit_jax.data import splits as split_strings
from vit_jax.errors import UserError
from vit_jax.evaluators.kind import EvaluatorKind

with epy.lazy_imports():  # Checking names must not wait for jax.
  from vit_jax.evaluators import (
    classification,
    contract,
    fewshot,
    knn,
    linear_probe,
  )

CLASSIFICATION = EvaluatorKind(schema.ClassificationEval)
FEWSHOT = EvaluatorKind(schema.FewshotEval)
KNN = EvaluatorKind(schema.KnnEval)
LINEAR_PROBE = EvaluatorKind(schema.LinearProbeEval)

EVALUATORS = {
  "classification": classification,
  "fewshot": fewshot,
  "knn": knn,
  "linear_probe": linear_probe,
}

# What an objective gives for every image as one vector.
REPRESENTATIONS = ("pre_logits", "logits")
# Names become parts of metrics and of paths.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def build(
  name: str, config: schema.Eval, context: "contract.Context"
) -> "contract.Evaluator":
  """The evaluator `config.evals.<name>`; opens its data.

  Raises:
    UserError: the data is not there or does not fit the model.
  """
  return EVALUATORS[config.type].build(name, config, context)


def check(config: schema.Config) -> None:
  """Checks all evaluators, as far as that needs no data.

  Raises:
    UserError: naming the key that is wrong.
  """
  seen: dict[tuple[str, str], str] = {}
  for name, entry in config.evals.items():
    key = f"config.evals.{name}"
    _check_name(name, "config.evals")
    if isinstance(entry, schema.ClassificationEval):
      dataset = entry.dataset or config.train.dataset
      _check_data(
        key, dataset, {"split": entry.split}, entry.preprocess, config
      )
      continue
    _check_features(key, entry)
    for dataset_name, dataset in entry.datasets.items():
      dataset_key = f"{key}.datasets.{dataset_name}"
      _check_name(dataset_name, f"{key}.datasets")
      reported = (entry.type, dataset_name)
      if reported in seen:
        raise UserError(
          f"{dataset_key} and {seen[reported]} would both be reported as"
          f" {'/'.join(reported)}; rename one."
        )
      seen[reported] = dataset_key
      split_of = {
        "train_split": dataset.train_split,
        "test_split": dataset.test_split,
      }
      _check_data(
        dataset_key, dataset.dataset, split_of, dataset.preprocess, config
      )


def _check_name(name: str, key: str) -> None:
  if not _NAME.fullmatch(name):
    raise UserError(
      f"{key} has the name {name!r}, which becomes part of metrics and file"
      " names; use letters, digits, '_', '-' and '.'."
    )


def _check_features(key: str, entry: schema.FeaturesEval) -> None:
  if isinstance(entry, schema.FewshotEval):
    _check_different(f"{key}.shots", entry.shots, "(1, 5, 10, 25)")
  elif isinstance(entry, schema.KnnEval):
    _check_different(f"{key}.neighbors", entry.neighbors, "(10, 20, 100, 200)")
  elif isinstance(entry, schema.LinearProbeEval):
    _check_different(f"{key}.l2_sweep", entry.l2_sweep, "(1e-4, 1e-3, 1e-2)")
  if entry.representation not in REPRESENTATIONS:
    near = difflib.get_close_matches(
      entry.representation, REPRESENTATIONS, n=1, cutoff=0
    )
    raise UserError(
      f"{key}.representation = {entry.representation!r} is not known; did you"
      f" mean {near[0]!r}? Known: {', '.join(REPRESENTATIONS)}."
    )


def _check_different(
  key: str, values: tuple[int | float, ...], example: str
) -> None:
  if not values or len(set(values)) != len(values):
    raise UserError(
      f"{key} = {values} must be different numbers, such as {example}."
    )


def _check_data(
  key: str,
  dataset: str,
  splits: dict[str, str],
  preprocess: str,
  config: schema.Config,
) -> None:
  """Checks where data comes from; `splits` maps their keys to their values."""
  _check_part(f"{key}.dataset", sources.check, dataset)
  for name, split in splits.items():
    _check_part(f"{key}.{name}", split_strings.check, split)
  spec.check(
    preprocess,
    config.model.image_size,
    where=f"{key}.preprocess",
    train=False,
  )


def _check_part(key: str, check_text: Callable[[str], None], text: str) -> None:
  try:
    check_text(text)
  except UserError as error:
    raise UserError(f"{key}: {error}") from None
