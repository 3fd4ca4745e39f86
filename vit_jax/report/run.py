"""A run's records in the form that the report uses."""

import dataclasses
import math
from typing import Any

import numpy as np

from vit_jax import records


@dataclasses.dataclass(frozen=True)
class Series:
  """One metric over the run: ascending steps int64 [n], values float64 [n].

  Values may be NaN or infinite, as recorded.
  """

  steps: np.ndarray
  values: np.ndarray

  def __len__(self) -> int:
    return len(self.steps)

  @property
  def finite(self) -> "Series":
    keep = np.isfinite(self.values)
    return Series(self.steps[keep], self.values[keep])


@dataclasses.dataclass(frozen=True)
class Example:
  """One test image kept by an evaluator.

  `image` holds PNG bytes or None; `name` is that of its file or record, "" in
  older records. If there are several labels, all are true with
  `has_all_labels`, and any counts as correct without.
  """

  id: int
  image: bytes | None
  labels: tuple[int, ...]
  prediction: int
  probability: float
  kind: str
  name: str = ""
  has_all_labels: bool = False

  @property
  def correct(self) -> bool:
    return self.prediction in self.labels


@dataclasses.dataclass(frozen=True)
class Predictions:
  """Every example's result, in the order of the split.

  example_id int64 [n]; labels int [n, l], padded with -1; prediction int [n];
  probability float [n], of the prediction.
  """

  example_id: np.ndarray
  labels: np.ndarray
  prediction: np.ndarray
  probability: np.ndarray

  def __len__(self) -> int:
    return len(self.prediction)

  @property
  def correct(self) -> np.ndarray:
    """Returns bool [n]: True where the prediction is one of the labels."""
    return (self.labels == self.prediction[:, None]).any(axis=1)


@dataclasses.dataclass(frozen=True)
class Evaluation:
  """The results of a classification evaluator at its latest step."""

  name: str
  step: int
  classes: tuple[str, ...] | None
  predictions: Predictions | None
  confusion: np.ndarray | None  # Counts [k, k]; rows are the truth.
  examples: tuple[Example, ...]

  def class_name(self, index: int) -> str:
    if self.classes is not None and 0 <= index < len(self.classes):
      return self.classes[index]
    return str(index)


@dataclasses.dataclass(frozen=True)
class Estimate:
  """One test image with its numbers and their predictions.

  `image` holds PNG bytes or None; a non-finite prediction is NaN.
  """

  id: int
  image: bytes | None
  labels: tuple[float, ...]
  predictions: tuple[float, ...]
  kind: str
  name: str


@dataclasses.dataclass(frozen=True)
class Regression:
  """The results of a regression evaluator at its latest step.

  labels and predictions float64 [n, numbers], in the order of the split.
  """

  name: str
  step: int
  numbers: tuple[str, ...]
  labels: np.ndarray
  predictions: np.ndarray
  examples: tuple[Estimate, ...]


@dataclasses.dataclass(frozen=True)
class Shown:
  """An image or a caption of a retrieval evaluator.

  Attributes:
    right: For a query, whether its first answer belongs to it; for an answer,
      whether it belongs to the query.
    text: The caption; None if it is an image.
    image: PNG bytes, if they could be read.
    id: Index of the image in its split.
    similarity: Cosine similarity to the query; None for a query.
    answers: For a query, its nearest answers.
  """

  right: bool
  text: str | None = None
  image: bytes | None = None
  id: int | None = None
  similarity: float | None = None
  answers: "tuple[Shown, ...]" = ()


@dataclasses.dataclass(frozen=True)
class Retrievals:
  """Queries of a retrieval evaluator at its latest step, with answers."""

  name: str
  step: int
  image_to_text: tuple[Shown, ...]
  text_to_image: tuple[Shown, ...]


@dataclasses.dataclass(frozen=True)
class Reconstructed:
  """An image, its visible part and its reconstruction, as PNG bytes."""

  id: int
  loss: float
  original: bytes | None
  masked: bytes | None
  reconstruction: bytes | None


@dataclasses.dataclass(frozen=True)
class Reconstructions:
  """The images of a reconstruction evaluator at its latest step."""

  name: str
  step: int
  images: tuple[Reconstructed, ...]


@dataclasses.dataclass(frozen=True)
class Run:
  """The records that a report is drawn from."""

  name: str
  config: dict[str, Any]
  summary: dict[str, Any]
  records: tuple[dict[str, Any], ...]
  evaluations: tuple[Evaluation, ...]
  notes: tuple[str, ...]
  evaluators: dict[str, Any] = dataclasses.field(default_factory=dict)
  retrievals: tuple[Retrievals, ...] = ()
  reconstructions: tuple[Reconstructions, ...] = ()
  regressions: tuple[Regression, ...] = ()

  @property
  def mixes_images(self) -> bool:
    """Returns True if training used mixed images, which are harder."""
    names = ("objective.mixup_alpha", "objective.cutmix_alpha")
    return any(number(self.setting(name)) for name in names)

  def setting(self, path: str, default: Any = None) -> Any:
    """Returns the value of a dotted config key, such as 'model.variant'."""
    value: Any = self.config
    for part in path.split("."):
      if not isinstance(value, dict) or part not in value:
        return default
      value = value[part]
    return default if value is None else value

  def section(self, key: str) -> dict[str, Any]:
    """Returns a dictionary of the summary or the config; {} if missing."""
    value = self.summary.get(key, self.config.get(key))
    return value if isinstance(value, dict) else {}

  def series(self, metric: str) -> Series:
    """Returns the metric at every recorded step; the last line wins."""
    values = {}
    for record in self.records:
      value = measured(record.get(metric, ""))
      if value is not None:
        values[record["step"]] = value
    steps = sorted(values)
    return Series(
      np.array(steps, np.int64), np.array([values[s] for s in steps], float)
    )

  def metrics(self) -> dict[str, float]:
    """Returns every metric's last value from the records, else the summary."""
    last = dict(self.section("metrics"))
    for record in sorted(self.records, key=lambda record: record["step"]):
      last |= record
    last.pop("step", None)
    values = {
      name: measured(last[name]) for name in sorted(last, key=records.in_order)
    }
    return {name: v for name, v in values.items() if v is not None}

  @property
  def changed_keys(self) -> list[str]:
    """Returns the keys of the config that starts of the run have changed."""
    keys = self.summary.get("changed_keys")
    return [str(key) for key in keys] if isinstance(keys, list) else []

  @property
  def step(self) -> int:
    """Returns the number of updates done, as far as recorded."""
    steps = [record["step"] for record in self.records]
    return max([*steps, whole(self.summary.get("step")) or 0])

  @property
  def total_steps(self) -> int | None:
    return whole(self.summary.get("total_steps")) or whole(
      self.setting("total_steps")
    )


def number(value: Any) -> float | None:
  """Returns a JSON number as a float, else None."""
  if isinstance(value, int | float) and not isinstance(value, bool):
    return float(value)
  return None


def measured(value: Any) -> float | None:
  """Returns a metric; null is a non-finite value, which JSON does not have."""
  return math.nan if value is None else number(value)


def whole(value: Any) -> int | None:
  """Returns a finite JSON number as an int, else None."""
  value = number(value)
  return int(value) if value is not None and math.isfinite(value) else None
