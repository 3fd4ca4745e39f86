"""Axes: positions of values, and the labelled ticks."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np

Label = Callable[[float], str]
_LEAST_SPAN = 1e-4  # Relative to the values.


@dataclasses.dataclass(frozen=True)
class Axis:
  """Maps [low, high] to pixels [start, end], linearly or logarithmically."""

  low: float
  high: float
  start: float
  end: float
  log: bool
  ticks: tuple[tuple[float, str], ...]

  def place(self, value: float) -> float:
    """Returns the pixel position of one value, NaN if it has none."""
    return float(self.at(np.array([value], float))[0])

  def at(self, values: np.ndarray) -> np.ndarray:
    """Returns pixel positions [n] of values [n], NaN if a value has none."""
    low, high = self.low, self.high
    if self.log:
      with np.errstate(divide="ignore", invalid="ignore"):
        values = np.log10(np.where(values > 0, values, np.nan))
      low, high = math.log10(low), math.log10(high)
    fraction = (values - low) / (high - low)
    fraction = np.where(np.isfinite(fraction), fraction, np.nan)
    return self.start + fraction * (self.end - self.start)


def linear(
  low: float,
  high: float,
  start: float,
  end: float,
  label: Label,
  *,
  num_ticks: int = 5,
  widen: bool = True,
  whole: bool = False,
  top: float | None = None,
) -> Axis:
  """Builds a linear axis with round ticks; `widen` extends it to them.

  If `whole`, as for steps, the ticks are whole numbers.

  It is then wide enough for labels of a few digits to distinguish the ticks. It
  ends at `top`, the largest possible value, unless `high` is larger.
  """
  highest = high
  least = _LEAST_SPAN * max(abs(low), abs(high))
  if widen and low < high < low + least:
    middle = (low + high) / 2
    low, high = middle - least / 2, middle + least / 2
  if not high > low:
    pad = abs(low) * 0.1 or 1.0
    low, high = (low - pad, high + pad) if low else (0.0, pad)
  step = _round_step((high - low) / num_ticks)
  if whole:
    step = {2.5: 5.0}.get(step, max(step, 1.0))
  if widen:
    low, high = math.floor(low / step) * step, math.ceil(high / step) * step
  if top is not None and high > top >= highest:
    high = top
  first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
  # Rounded, as 3 * 0.1 is not 0.3.
  ticks = [float(f"{k * step:.12g}") for k in range(first, last + 1)]
  return Axis(low, high, start, end, False, tuple((t, label(t)) for t in ticks))


def logarithmic(
  low: float, high: float, start: float, end: float, label: Label
) -> Axis:
  """Builds a base-10 axis; a narrow one has labels between decades."""
  if not high > low * 1.01:
    low, high = low / 2, high * 2
  pad = (high / low) ** 0.04
  low, high = low / pad, high * pad
  decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
  span = math.log10(high / low)
  factors = (1, 2, 5) if span < 1.6 else (1, 3) if span < 3 else (1,)

  every = max(1, len(decades) // 6)
  ticks = [
    float(f"{factor}e{decade}")
    for decade in decades
    for factor in factors
    if decade % every == 0 and low <= factor * 10.0**decade <= high
  ]
  return Axis(low, high, start, end, True, tuple((t, label(t)) for t in ticks))


def _round_step(step: float) -> float:
  """Rounds `step` up to 1, 2, 2.5 or 5 times a power of ten."""
  power = 10.0 ** math.floor(math.log10(step))
  for factor in (1, 2, 2.5, 5, 10):
    if factor * power >= step * 0.999:
      return factor * power
  return 10 * power
