"""Defensive reading of a run's records in its workdir, without jax.

A report may be requested while the run is in progress, after a kill, or years
later. Any piece may be missing or truncated; a missing piece leaves a gap in
the `Run` and a sentence in `Run.notes`, and never raises an exception.
"""

import contextlib
import io
import json
from collections.abc import Iterable
from typing import Any

import numpy as np
from etils import epath

from vit_jax import buckets, errors, npz_errors, records
from vit_jax.config import evaluator_declarations, resolve
from vit_jax.report.run import (
  Estimate,
  Evaluation,
  Example,
  Predictions,
  Reconstructed,
  Reconstructions,
  Regression,
  Retrievals,
  Run,
  Shown,
)

_RETRIEVAL = "retrieval.json"
_RECONSTRUCTION = "reconstruction.json"
_REGRESSION = "regression.json"
_KINDS = (_RETRIEVAL, _RECONSTRUCTION, _REGRESSION)


def load_run(workdir: epath.PathLike, *, with_evaluations: bool = True) -> Run:
  """Reads everything that a workdir has.

  Args:
    workdir: Workdir of a run at any stage.
    with_evaluations: Reads predictions and images as well.

  Raises:
    UserError: There is no such directory, or it does not contain a run.
  """
  buckets.check(workdir)
  root = epath.Path(workdir)
  if not root.is_dir():
    raise errors.UserError(
      f"There is no workdir {str(workdir)!r} to report on; give the --workdir"
      " of a training run."
    )
  notes: list[str] = []
  config = _json_object(root / "config.json", notes)
  summary = _json_object(root / "summary.json", notes)
  lines = _records(root / "metrics.jsonl", notes)
  if not (config or summary or lines):
    raise errors.UserError(
      f"The directory {str(workdir)!r} holds no config.json, metrics.jsonl or"
      " summary.json; give the --workdir of a training run."
    )
  evaluators = {}
  evals = config.get("evals")
  if evals:
    evaluators = _declared(root / evaluator_declarations.FILE, config, notes)
  order = list(evals) if isinstance(evals, dict) else []
  newest = {}
  if with_evaluations:
    last = max((line["step"] for line in lines), default=None)
    newest = _newest(root / "evaluations", order, last)
  return Run(
    name=buckets.absolute(root).name,
    config=config,
    summary=summary,
    records=tuple(lines),
    evaluations=tuple(
      _evaluation(path, name, notes)
      for name, path in newest.items()
      if not any((path / kind).exists() for kind in _KINDS)
    ),
    retrievals=tuple(
      _retrievals(path, name, notes)
      for name, path in newest.items()
      if (path / _RETRIEVAL).exists()
    ),
    reconstructions=tuple(
      _reconstructions(path, name, notes)
      for name, path in newest.items()
      if (path / _RECONSTRUCTION).exists()
    ),
    regressions=tuple(
      found
      for name, path in newest.items()
      if (path / _REGRESSION).exists()
      if (found := _regression(path, name, notes)) is not None
    ),
    notes=tuple(notes),
    evaluators=evaluators,
  )


def _declared(
  path: epath.Path, config: dict[str, Any], notes: list[str]
) -> dict[str, Any]:
  """Returns the evaluators' declarations; for an older run, current ones."""
  if not path.exists():
    with contextlib.suppress(errors.UserError):
      resolved = resolve.load(json.dumps(config))
      return evaluator_declarations.declarations(resolved)
  return _json_object(path, notes)


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
  """Reads complete lines; a kill may have truncated the last one."""
  try:
    return records.read_lines(path)
  except (OSError, UnicodeDecodeError) as error:
    missing = isinstance(error, FileNotFoundError)
    reason = "is not there." if missing else f"could not be read ({error})."
    notes.append(f"{path.name} {reason}")
    return []


def _newest(
  root: epath.Path, order: list[str], last: int | None
) -> dict[str, epath.Path]:
  """Finds the latest step of every evaluator, in the order of the config.

  An evaluator of several datasets has a directory for each, named
  '<evaluator>/<dataset>'. Steps after `last`, if it is known, were left by a
  run that has since been rewound.
  """
  found = {}
  names = _directories(root)
  names.sort(key=lambda n: order.index(n) if n in order else len(order))
  for name in names:
    places = {name: root / name}
    places |= {
      f"{name}/{d}": root / name / d for d in _directories(root / name)
    }
    for place, path in places.items():
      steps = [
        int(step)
        for step in _directories(path)
        if step.isdigit() and (last is None or int(step) <= last)
        if (path / step / "images").is_dir()
      ]
      if steps:
        found[place] = path / str(max(steps))
  return found


def _directories(path: epath.Path) -> list[str]:
  if not path.is_dir():
    return []
  return sorted(one.name for one in path.iterdir() if one.is_dir())


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


def _retrievals(path: epath.Path, name: str, notes: list[str]) -> Retrievals:
  found = _json_object(path / _RETRIEVAL, notes)
  return Retrievals(
    name=name,
    step=int(path.name),
    image_to_text=tuple(_queries(path, found.get("image_to_text"), notes)),
    text_to_image=tuple(_queries(path, found.get("text_to_image"), notes)),
  )


def _reconstructions(
  path: epath.Path, name: str, notes: list[str]
) -> Reconstructions:
  images = []
  for entry in _json_list(path / _RECONSTRUCTION):
    try:
      example, loss = int(entry["id"]), float(entry["loss"])
    except (KeyError, TypeError, ValueError) as error:
      notes.append(f"{name}: an image is damaged ({error!r}).")
      continue
    images.append(
      Reconstructed(
        id=example,
        loss=loss,
        original=_png(path, f"images/{example}.png"),
        masked=_png(path, f"images/{example}-masked.png"),
        reconstruction=_png(path, f"images/{example}-reconstruction.png"),
      )
    )
  return Reconstructions(name, int(path.name), tuple(images))


def _regression(
  path: epath.Path, name: str, notes: list[str]
) -> Regression | None:
  """Reads a regression; None, with a note, if predictions are damaged."""
  found = _json_object(path / _REGRESSION, notes)
  arrays = _arrays(path / "predictions.npz", notes)
  numbers = found.get("numbers")
  numbers = tuple(map(str, numbers)) if isinstance(numbers, list) else ()
  shape = np.shape(arrays.get("label", ()))
  if (
    not numbers
    or len(shape) != 2
    or shape != (shape[0], len(numbers))
    or np.shape(arrays.get("prediction", ())) != shape
    or not shape[0]
  ):
    notes.append(f"{name}: the predicted numbers are damaged; left out.")
    return None
  examples = []
  entries = found.get("examples")
  for entry in entries if isinstance(entries, list) else ():
    try:
      labels, predictions = (
        tuple(np.nan if x is None else float(x) for x in entry[key])
        for key in ("label", "prediction")
      )
      if not len(labels) == len(predictions) == len(numbers):
        raise ValueError("numbers are missing")
      examples.append(
        Estimate(
          id=int(entry["id"]),
          image=_png(path, str(entry["image"])),
          labels=labels,
          predictions=predictions,
          kind=str(entry["kind"]),
          name=str(entry["name"]),
        )
      )
    except (KeyError, TypeError, ValueError) as error:
      notes.append(f"{name}: an example is damaged ({error!r}).")
  return Regression(
    name=name,
    step=int(path.name),
    numbers=numbers,
    labels=arrays["label"].astype(float),
    predictions=arrays["prediction"].astype(float),
    examples=tuple(examples),
  )


def _queries(
  path: epath.Path, entries: Any, notes: list[str]
) -> Iterable[Shown]:
  for entry in entries if isinstance(entries, list) else ():
    try:
      answers = tuple(_shown(path, answer) for answer in entry["answers"])
      yield _shown(path, entry, answers)
    except (KeyError, TypeError, ValueError) as error:
      notes.append(f"{path.parent.name}: a query is damaged ({error!r}).")


def _shown(
  path: epath.Path, entry: Any, answers: tuple[Shown, ...] = ()
) -> Shown:
  similarity = entry.get("similarity")
  common = {
    "right": bool(entry["right"]),
    "similarity": None if similarity is None else float(similarity),
    "answers": answers,
  }
  if "text" in entry:
    return Shown(text=str(entry["text"]), **common)
  example = int(entry["image"])
  image = _png(path, f"images/{example}.png")
  return Shown(id=example, image=image, **common)


def _json_list(path: epath.Path) -> list[Any]:
  try:
    value = json.loads(path.read_bytes())
  except (OSError, ValueError):
    return []
  return value if isinstance(value, list) else []


def _arrays(path: epath.Path, notes: list[str]) -> dict[str, np.ndarray]:
  """Reads all arrays of an .npz file; pickled objects are rejected."""
  try:
    with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
      return {key: file[key] for key in file.files}
  except FileNotFoundError:
    return {}
  except (OSError, MemoryError, *npz_errors.DAMAGED) as error:
    reason = str(error) or type(error).__name__
    notes.append(f"{path.parent.parent.name}/{path.name}: {reason}")
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
        name=str(entry.get("name", "")),
        has_all_labels=bool(entry.get("has_all_labels", False)),
      )
    except (KeyError, TypeError, ValueError) as error:
      notes.append(f"{path.parent.name}: an example is damaged ({error!r}).")
      continue
    yield example


def _png(path: epath.Path, name: str) -> bytes | None:
  """Reads `images/<id>.png`, if `name` has that form and the file is a PNG."""
  if ".." in name or name.startswith("/"):
    return None
  try:
    data = (path / name).read_bytes()
  except OSError:
    return None
  return data if data.startswith(b"\x89PNG\r\n\x1a\n") else None
