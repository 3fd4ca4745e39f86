"""How each evaluator measures, in sentences for whoever reads its numbers.

Entries of `config.evals` are given as JSON has them. Those of a run may be of
another version: what they do not say is left out.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Entry = Mapping[str, Any]


def entries(evals: Mapping[str, Any], kind: str) -> list[Entry]:
  """The evaluators of one type."""
  found = [one for one in evals.values() if isinstance(one, dict)]
  return [one for one in found if one.get("type") == kind]


def fewshot(entry: Entry, *, with_draws: bool = False) -> list[str]:
  """Sentences on a few-shot evaluation; `with_draws`: on its seeds as well."""
  sentences = [
    "A linear classifier is fitted by ridge regression to the frozen"
    f" {_features(entry)} of a few labelled images per class and tested on the"
    " whole test split."
  ]
  if l2 := entry.get("l2"):
    sentences.append(f"Its l2 is {l2:g}, fixed beforehand.")
  if sweep := entry.get("l2_sweep"):
    sentences.append(
      f"'l2 swept': the most accurate of {_listed(sweep)} on held-out examples"
      " of the training split, the test split having no say in it."
    )
  if with_draws and (seeds := entry.get("num_seeds")):
    over = f"over {seeds} draws" if seeds > 1 else "of a single draw"
    sentences.append(
      f"Mean ± standard deviation {over} of the labelled images, the same"
      " images for every checkpoint."
    )
  return sentences


def knn(entry: Entry) -> list[str]:
  """Sentences on a k-NN evaluation."""
  sentences = [
    "The k most similar images of the whole training split vote on the class of"
    f" each test image; similar is a large cosine of {_features(entry)}."
  ]
  if temperature := entry.get("temperature"):
    sentences.append(f"A vote weighs exp(cosine / {temperature:g}).")
  return sentences


def linear_probe(entry: Entry) -> list[str]:
  """Sentences on a linear probe."""
  sentences = [
    "A multinomial logistic regression is fitted to the frozen"
    f" {_features(entry)} of the whole training split, standardised, and tested"
    " on the whole test split."
  ]
  sweep, share = entry.get("l2_sweep"), entry.get("held_out")
  if sweep and len(sweep) == 1:
    sentences.append(f"Its l2 is {sweep[0]:g}, fixed beforehand.")
  elif sweep and share:
    sentences.append(
      f"Its l2 is the most accurate of {_listed(sweep)} on {100 * share:g}% of"
      " each class of the training split, held out of the fit that is compared;"
      " the test split has no say in it."
    )
  return sentences


def classification(entry: Entry) -> list[str]:
  """Sentences on the accuracy of a model's own head."""
  dataset = entry.get("dataset") or "the training dataset"
  split = entry.get("split")
  where = f"split {split!r} of {dataset}" if split else dataset
  sentence = f"the model's own head on every labelled image of {where}"
  if sets := entry.get("label_sets"):
    sentence += f", any of the labels of {sets} being right"
  return [f"{sentence}."]


def _features(entry: Entry) -> str:
  name = entry.get("representation")
  return f"{name} features" if name else "features"


def _listed(values: Sequence[float]) -> str:
  *most, last = (f"{value:g}" for value in sorted(values))
  return f"{', '.join(most)} and {last}" if most else last
