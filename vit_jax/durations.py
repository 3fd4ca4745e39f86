"""Durations of training, and points in time during it, as values.

A duration is written as a number of steps (`1000`) or as text: `'1000 steps'`,
`'90 epochs'`, `'1.5 epochs'`, `'10M examples'`, or `'10%'` of the run.
"""

import dataclasses
import math
import re

_TEXT = re.compile(
  r"\s*([\d_]*\.?\d+(?:e\d+)?)\s*([kKMG]?)\s*(steps?|epochs?|examples?)\s*"
)
_SHARE = re.compile(r"\s*(\d*\.?\d+)\s*%\s*")
_MAX_LENGTH = 50  # Matching takes quadratic time.
_MOST = 2**31 - 1
_FACTORS = {"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}


@dataclasses.dataclass(frozen=True)
class Duration:
  """`amount` of `unit`, where unit is 'step', 'epoch', 'example' or 'run'."""

  amount: int | float
  unit: str

  def to_steps(
    self, *, batch_size: int, num_examples: int | None, total_steps: int
  ) -> int:
    """Returns the nearest whole number of steps, at most 2**31 - 1.

    No run can be longer, as steps are counted in int32.

    Args:
      batch_size: Number of examples in the global batch.
      num_examples: Examples per epoch; needed only for epochs.
      total_steps: Length of the run.

    Raises:
      ValueError: The unit is epochs and `num_examples` is unknown.
    """
    steps = self.amount
    if self.unit == "run":
      steps *= total_steps
    elif self.unit == "example":
      steps /= batch_size
    elif self.unit == "epoch":
      if num_examples is None:
        raise ValueError(
          f"{self.amount:g} epochs cannot be counted in steps: the number of"
          " training examples is not known."
        )
      steps = steps * num_examples / batch_size
    return round(min(steps, _MOST))


def parse(value: int | str) -> Duration:
  """Parses a duration.

  Args:
    value: Number of steps, or text as described in the module's docstring.

  Raises:
    ValueError: The value is negative, longer than the run or malformed.
  """
  if isinstance(value, int) and not isinstance(value, bool):
    if value < 0:
      raise ValueError(f"{value} is negative; use 0 or more steps")
    return Duration(value, "step")
  is_text = isinstance(value, str) and len(value) <= _MAX_LENGTH
  if is_text and (match := _SHARE.fullmatch(value)):
    share = float(match.group(1)) / 100
    if share > 1:
      raise ValueError(f"{value!r} is more than the run; use 100% or less")
    return Duration(share, "run")
  match = _TEXT.fullmatch(value) if is_text else None
  if not match:
    raise ValueError(
      f"{value!r} is not a duration; write a number of steps, or text such"
      " as '1000 steps', '5 epochs', '10M examples' or '10%' of the run"
    )
  amount = float(match.group(1)) * _FACTORS[match.group(2)]
  if not math.isfinite(amount):
    raise ValueError(f"{value!r} is too long")
  return Duration(amount, match.group(3).rstrip("s"))


@dataclasses.dataclass(frozen=True)
class EverySteps:
  """Due at every multiple of `steps`, and also at `last_step` if given."""

  steps: int | None
  last_step: int | None = None

  def due(self, step: int) -> bool:
    if step == self.last_step:
      return True
    return bool(self.steps) and step > 0 and step % self.steps == 0

  def count(self, first: int, last: int) -> int:
    """Counts the due steps after `first`, up to `last`."""
    due = last // self.steps - first // self.steps if self.steps else 0
    if self.last_step is not None and first < self.last_step <= last:
      due += not self.steps or self.last_step % self.steps != 0
    return due
