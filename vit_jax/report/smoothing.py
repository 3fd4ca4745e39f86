"""Smoothing noisy curves by a centred mean, and thinning that keeps peaks."""

import numpy as np

MAX_POINTS = 500


def window_length(num_points: int) -> int:
  """Returns the odd number of records that the mean spans; 1 if few."""
  if num_points < 20:
    return 1
  return max(5, num_points // 25) | 1


def centred_mean(values: np.ndarray, window: int) -> np.ndarray:
  """Averages over a window, [n] -> [n]; cut at the ends, skips non-finite.

  Each window is summed separately: differences of running sums would lose
  precision if one value is much larger than the others.
  """
  half = window // 2
  keep = np.isfinite(values)
  totals = _sums(np.where(keep, values, 0.0), half)
  number = _sums(keep.astype(float), half)
  with np.errstate(invalid="ignore", divide="ignore"):
    return np.where(keep, totals / number, np.nan)


def _sums(values: np.ndarray, half: int) -> np.ndarray:
  """Sums each value and `half` others on either side, [n] -> [n]."""
  if not len(values):
    return values
  windows = np.lib.stride_tricks.sliding_window_view(
    np.pad(values, half), 2 * half + 1
  )
  with np.errstate(over="ignore"):
    return windows.sum(axis=1)


def thin(
  steps: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Keeps about MAX_POINTS points at most, with each stretch's extremes."""
  if len(steps) <= MAX_POINTS:
    return steps, values
  finite = np.isfinite(values)
  kept = {0, len(steps) - 1}
  for chunk in np.array_split(np.arange(len(steps)), MAX_POINTS // 2):
    present, absent = chunk[finite[chunk]], chunk[~finite[chunk]]
    kept.update(absent[:1].tolist())  # Keeps gaps.
    if len(present):
      kept.add(int(present[values[present].argmin()]))
      kept.add(int(present[values[present].argmax()]))
  index = np.array(sorted(kept))
  return steps[index], values[index]
