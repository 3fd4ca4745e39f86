"""A run's records as the rest of the report sees them."""

import dataclasses
import math
from typing import Any

import numpy as np

from vit_jax import records


@dataclasses.dataclass(frozen=True)
class Series:
  """One metric over the run: steps int64 [n] ascending, values float64 [n].

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
  records from before; of several labels all are true with `has_all_labels`, any
  without.
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
  """Every example's outcome, in the order of the split.

  example_id int64 [n]; labels int [n, l], padded with -1; prediction int [n];
  probability float [n], that of the prediction.
  """

  example_id: np.ndarray
  labels: np.ndarray
  prediction: np.ndarray
  probability: np.ndarray

  def __len__(self) -> int:
    return len(self.prediction)

  @property
  def correct(self) -> np.ndarray:
    """bool [n]: the prediction is one of the labels."""
    return (self.labels == self.prediction[:, None]).any(axis=1)


@dataclasses.dataclass(frozen=True)
class Evaluation:
  """The outcomes of a classification evaluator at its newest step."""

  name: str
  step: int
  classes: tuple[str, ...] | None
  predictions: Predictions | None
  confusion: np.ndarray | None  # Counts [k, k], rows the truth.
  examples: tuple[Example, ...]

  def class_name(self, index: int) -> str:
    if self.classes is not None and 0 <= index < len(self.classes):
      return self.classes[index]
    return str(index)


@dataclasses.dataclass(frozen=True)
class Estimate:
  """One test image with its numbers and those predicted of it.

  `image` holds PNG bytes or None; a prediction that was not finite is NaN.
  """

  id: int
  image: bytes | None
  labels: tuple[float, ...]
  predictions: tuple[float, ...]
  kind: str
  name: str


@dataclasses.dataclass(frozen=True)
class Regression:
  """The outcomes of a regression evaluator at its newest step.

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
    right: Of a query, whether its first answer belongs to it; of an answer,
      whether it belongs to the query.
    text: The caption; None: it is an image.
    image: PNG bytes, if they could be read.
    id: Number of the image in its split.
    similarity: Cosine with the query; None of a query.
    answers: Of a query, what is nearest to it.
  """

  right: bool
  text: str | None = None
  image: bytes | None = None
  id: int | None = None
  similarity: float | None = None
  answers: "tuple[Shown, ...]" = ()


@dataclasses.dataclass(frozen=True)
class Retrievals:
  """Queries of a retrieval evaluator at its newest step, with their answers."""

  name: str
  step: int
  image_to_text: tuple[Shown, ...]
  text_to_image: tuple[Shown, ...]


@dataclasses.dataclass(frozen=True)
class Reconstructed:
  """An image, what was seen of it and what was made of that; PNG bytes."""

  id: int
  loss: float
  original: bytes | None
  masked: bytes | None
  reconstruction: bytes | None


@dataclasses.dataclass(frozen=True)
class Reconstructions:
  """The images of a reconstruction evaluator at its newest step."""

  name: str
  step: int
  images: tuple[Reconstructed, ...]


@dataclasses.dataclass(frozen=True)
class Run:
  """The records that a report draws from."""

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
    """True if it was trained on mixed images, which are harder than others."""
    names = ("objective.mixup_alpha", "objective.cutmix_alpha")
    return any(number(self.setting(name)) for name in names)

  def setting(self, path: str, default: Any = None) -> Any:
    """The value of a dotted config key, such as 'model.variant'."""
    value: Any = self.config
    for part in path.split("."):
      if not isinstance(value, dict) or part not in value:
        return default
      value = value[part]
    return default if value is None else value

  def section(self, key: str) -> dict[str, Any]:
    """A dictionary of the summary or the config; {} where it is missing."""
    value = self.summary.get(key, self.config.get(key))
    return value if isinstance(value, dict) else {}

  def series(self, metric: str) -> Series:
    """The metric at every step it was recorded; the last line wins."""
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
    """Last value of every metric: the records', else the summary's."""
    last = dict(self.section("metrics"))
    for record in sorted(self.records, key=lambda record: record["step"]):
      last |= record
    last.pop("step", None)
    values = {
      name: measured(last[name]) for name in sorted(last, key=records.in_order)
    }
    return {name: v for name, v in values.items() if v is not None}

  @property
  def step(self) -> int:
    """Updates done, as far as the records know."""
    steps = [record["step"] for record in self.records]
    return max([*steps, whole(self.summary.get("step")) or 0])

  @property
  def total_steps(self) -> int | None:
    return whole(self.summary.get("total_steps")) or whole(
      self.setting("total_steps")
    )


def number(value: Any) -> float | None:
  """A JSON number as a float, else None."""
  if isinstance(value, int | float) and not isinstance(value, bool):
    return float(value)
  return None


def measured(value: Any) -> float | None:
  """A metric; null is a value that was not finite, since JSON has none."""
  return math.nan if value is None else number(value)


def whole(value: Any) -> int | None:
  """A finite JSON number as an int, else None."""
  value = number(value)
  return int(value) if value is not None and math.isfinite(value) else None
