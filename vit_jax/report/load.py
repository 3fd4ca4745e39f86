"""A run as its workdir records it, read without jax and without trust.

A report may be asked for while the run is under way, after a kill, or years
later: every piece may be missing or torn, and a missing piece is a gap in
the `Run` with a sentence in `Run.notes`, never an exception.
"""

import dataclasses
import io
import json
import math
import zipfile
from collections.abc import Iterable
from typing import Any

import numpy as np
from etils import epath

from vit_jax import errors


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
  """One test image kept by an evaluator; `image` holds PNG bytes or None."""

  id: int
  image: bytes | None
  labels: tuple[int, ...]
  prediction: int
  probability: float
  kind: str

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
  """What a classification evaluator left at its newest step."""

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
class Run:
  """All that a report draws from."""

  name: str
  config: dict[str, Any]
  summary: dict[str, Any]
  records: tuple[dict[str, Any], ...]
  evaluations: tuple[Evaluation, ...]
  notes: tuple[str, ...]

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
      value = number(record.get(metric))
      if value is not None:
        values[record["step"]] = value
    steps = sorted(values)
    return Series(
      np.array(steps, np.int64), np.array([values[s] for s in steps], float)
    )

  def metrics(self) -> dict[str, float]:
    """Last value of every metric: the records', else the summary's."""
    last = {
      name: value
      for name, raw in self.section("metrics").items()
      if (value := number(raw)) is not None
    }
    newest: dict[str, int] = {}
    for record in self.records:
      for name, raw in record.items():
        value = number(raw)
        if name == "step" or value is None:
          continue
        if record["step"] >= newest.get(name, -1):
          newest[name] = record["step"]
          last[name] = value
    return dict(sorted(last.items()))

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
  """A JSON number (also 'NaN', 'Infinity' as words) as a float, else None."""
  if isinstance(value, bool) or value is None:
    return None
  if isinstance(value, int | float):
    return float(value)
  if value in ("NaN", "Infinity", "-Infinity"):
    return float(value)
  return None


def whole(value: Any) -> int | None:
  """A finite JSON number as an int, else None."""
  value = number(value)
  return int(value) if value is not None and math.isfinite(value) else None


def load_run(workdir: str) -> Run:
  """Reads whatever a workdir holds.

  Raises:
    UserError: there is no such directory, or it holds no run at all.
  """
  root = epath.Path(workdir)
  if not root.is_dir():
    raise errors.UserError(
      f"There is no workdir {str(workdir)!r} to report on; give the --workdir"
      " of a training run."
    )
  notes: list[str] = []
  config = _json_object(root / "config.json", notes)
  summary = _json_object(root / "summary.json", notes)
  records = _records(root / "metrics.jsonl", notes)
  if not (config or summary or records):
    raise errors.UserError(
      f"The directory {str(workdir)!r} holds no config.json, metrics.jsonl or"
      " summary.json; give the --workdir of a training run."
    )
  evals = config.get("evals")
  order = list(evals) if isinstance(evals, dict) else []
  return Run(
    name=root.resolve().name if root.exists() else root.name,
    config=config,
    summary=summary,
    records=tuple(records),
    evaluations=tuple(_evaluations(root / "evaluations", order, notes)),
    notes=tuple(notes),
  )


def _json_object(path: epath.Path, notes: list[str]) -> dict[str, Any]:
  try:
    value = json.loads(path.read_bytes())
  except FileNotFoundError:
    notes.append(f"{path.name} is not there.")
    return {}
  except (OSError, ValueError) as error:
    notes.append(f"{path.name} could not be read ({error}).")
    return {}
  if not isinstance(value, dict):
    notes.append(f"{path.name} does not hold a JSON object.")
    return {}
  return value


def _records(path: epath.Path, notes: list[str]) -> list[dict[str, Any]]:
  """The lines that parse; a kill may have torn the last one."""
  try:
    lines = path.read_bytes().split(b"\n")
  except OSError:
    notes.append(f"{path.name} is not there.")
    return []
  records, torn = [], 0
  for line in lines:
    if not line.strip(b" \r\t\0"):
      continue
    try:
      record = json.loads(line)
    except ValueError:
      torn += 1
      continue
    if isinstance(record, dict) and whole(record.get("step")) is not None:
      records.append(record | {"step": whole(record["step"])})
    else:
      torn += 1
  if torn:
    notes.append(f"{path.name}: {torn} unreadable line(s) left out.")
  return records


def _evaluations(
  root: epath.Path, order: list[str], notes: list[str]
) -> Iterable[Evaluation]:
  """The newest step of every evaluator, in the order of the config."""
  if not root.is_dir():
    return
  names = sorted(path.name for path in root.iterdir() if path.is_dir())
  names.sort(key=lambda n: order.index(n) if n in order else len(order))
  for name in names:
    # Directories being written have other names than a bare step.
    steps = [int(p.name) for p in (root / name).iterdir() if p.name.isdigit()]
    if steps:
      yield _evaluation(root / name / str(max(steps)), name, notes)


def _evaluation(path: epath.Path, name: str, notes: list[str]) -> Evaluation:
  arrays = _arrays(path / "predictions.npz", notes)
  predictions = None
  if {"label", "prediction", "probability"} <= arrays.keys():
    labels, prediction = arrays["label"], arrays["prediction"]
    predictions = Predictions(
      example_id=arrays.get("example_id", np.arange(len(prediction))),
      labels=labels if labels.ndim == 2 else labels[:, None],
      prediction=prediction,
      probability=arrays["probability"].astype(float),
    )
  confusion = _arrays(path / "confusion.npz", notes).get("counts")
  if confusion is not None and (
    confusion.ndim != 2 or confusion.shape[0] != confusion.shape[1]
  ):
    notes.append(f"{name}: confusion counts are not square; left out.")
    confusion = None
  classes = _json_list(path / "classes.json")
  return Evaluation(
    name=name,
    step=int(path.name),
    classes=tuple(str(c) for c in classes) if classes else None,
    predictions=predictions,
    confusion=confusion,
    examples=tuple(_examples(path, notes)),
  )


def _json_list(path: epath.Path) -> list[Any]:
  try:
    value = json.loads(path.read_bytes())
  except (OSError, ValueError):
    return []
  return value if isinstance(value, list) else []


def _arrays(path: epath.Path, notes: list[str]) -> dict[str, np.ndarray]:
  """All arrays of an .npz; pickled objects are refused."""
  try:
    with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
      return {key: file[key] for key in file.files}
  except FileNotFoundError:
    return {}
  except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
    notes.append(f"{path.parent.parent.name}/{path.name}: {error}")
    return {}


def _examples(path: epath.Path, notes: list[str]) -> Iterable[Example]:
  for entry in _json_list(path / "examples.json"):
    try:
      label = entry["label"]
      labels = label if isinstance(label, list) else [label]
      example = Example(
        id=int(entry["id"]),
        image=_png(path, str(entry["image"])),
        labels=tuple(int(k) for k in labels if int(k) >= 0),
        prediction=int(entry["prediction"]),
        probability=float(entry["probability"]),
        kind=str(entry.get("kind", "sample")),
      )
    except (KeyError, TypeError, ValueError) as error:
      notes.append(f"{path.parent.name}: an example is damaged ({error!r}).")
      continue
    yield example


def _png(path: epath.Path, name: str) -> bytes | None:
  """The bytes of `images/<id>.png`, if that is what `name` and file are."""
  if ".." in name or name.startswith("/"):
    return None
  try:
    data = (path / name).read_bytes()
  except OSError:
    return None
  return data if data.startswith(b"\x89PNG\r\n\x1a\n") else None
