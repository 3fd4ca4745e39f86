"""Numbers in the fields of a CSV file."""

from collections.abc import Iterable, Sequence

import numpy as np


def problem(column: str, text: str) -> str:
  """Describes why a field is not a finite number; '' if it is one."""
  if not text:
    return f"no number in column {column!r}"
  value = _number(text)
  if value is None:
    return f"column {column!r}: {text!r} is not a number"
  if not np.isfinite(value):
    return f"column {column!r}: {text!r} is not finite"
  return ""


def parse(rows: Sequence[Sequence[str]]) -> np.ndarray:
  """Parses fields without a `problem` as float64 [rows, columns]."""
  return np.array([[float(text) for text in row] for row in rows], np.float64)


def fraction(texts: Iterable[str]) -> str | None:
  """One of the texts that is not an integer, if all are finite numbers."""
  found = None
  for text in sorted(texts):
    value = _number(text)
    if value is None or not np.isfinite(value):
      return None
    if found is None and value != int(value):
      found = text
  return found


def _number(text: str) -> np.float32 | None:
  """The number as stored in a batch; None if the text is not a number."""
  try:
    value = float(text)
  except ValueError:
    return None
  # Only Python accepts underscores, as in 1_000.
  with np.errstate(over="ignore"):
    return None if "_" in text else np.float32(value)
