"""Accounting of a run's time over all its starts.

Training that is repeated after a kill, or undone by a rollback, counts as lost.
It is measured by marks (a step and the seconds by phase up to it), which are
written at every save and, after steps, every few seconds.

Google's `ml-goodput-measurement` is not used because it keeps its records in
Google Cloud Logging; here they must be in the run's directory.
"""

import contextlib
import json
import time
from typing import Any

from etils import epath

from vit_jax import records
from vit_jax.rundir.timing import Clock

FILE = "attempts.json"
_SECONDS_BETWEEN_MARKS = 10.0
_MAX_MARKS = 100

Seconds = dict[str, float]
Mark = tuple[int, Seconds]  # A step and the seconds by phase up to it.


class Goodput:
  """The seconds of this and all earlier starts, by phase.

  Args:
    workdir: Directory of the run.
    clock: Clock of this start.
    first_step: Step that the run resumes from.
    num_devices: Number of devices of all processes of this start.
  """

  def __init__(
    self,
    workdir: epath.Path,
    clock: Clock,
    first_step: int,
    num_devices: int,
  ):
    self._path = workdir / FILE
    self._clock = clock
    self._num_devices = num_devices
    self._earlier, self._starts, of_devices = _read(self._path, first_step)
    if of_devices is None:  # Not recorded yet: assumes as many devices.
      of_devices = sum(self._earlier.values()) * num_devices
    self._earlier_of_devices = of_devices
    self._lost = 0.0
    self._step = first_step
    self._has_saved = first_step > 0
    self._marks: list[Mark] = [(first_step, {})]
    self._written = -_SECONDS_BETWEEN_MARKS
    self._write()  # Counts a start killed before its first step.

  def mark(self, step: int, *, is_saved: bool = False) -> None:
    """Records the seconds by phase after `step`.

    Args:
      step: Number of updates done.
      is_saved: True if a run may resume from here; such steps are always
        marked.
    """
    self._step = step
    self._has_saved |= is_saved
    now = time.monotonic()
    if not is_saved and now - self._written < _SECONDS_BETWEEN_MARKS:
      return
    self._written = now
    self._marks.append((step, self._now()))
    if len(self._marks) > _MAX_MARKS:
      # Rollbacks to old saves are rare, and a nearby mark is enough.
      older = self._marks[: _MAX_MARKS // 2]
      self._marks = older[::2] + self._marks[_MAX_MARKS // 2 :]
    self._write()

  def _write(self) -> None:
    known = {
      "starts": self._starts,
      "earlier": self._earlier,
      "lost": self._lost,
      "marks": self._marks,
      "device_seconds": self._device_seconds(),
      "has_saved": self._has_saved,
    }
    # Not worth failing a run: missing marks only make the account less exact.
    with contextlib.suppress(OSError):
      records.write_json(self._path, known)

  def close(self) -> None:
    """Records the seconds by phase at the end of this start."""
    self._marks.append((self._step, self._now()))
    self._write()

  def went_back(self, step: int) -> None:
    """Counts the work after `step` as lost."""
    _, lost = _split(self._marks, self._now(), step)
    self._lost += sum(lost.values())
    self._marks = [(s, at) for s, at in self._marks if s <= step]
    self._marks.append((step, self._now()))
    self._step = step
    self._has_saved = step > 0
    self._write()  # A run killed now has not lost its checkpoints.

  def summary(self) -> dict[str, float | int]:
    """Returns seconds by phase, without lost ones, and the share of steps.

    `goodput` is the fraction of all seconds spent in steps that were not lost;
    `device_hours` covers all devices and starts, including lost work.
    """
    seconds = _added(self._earlier, self._now())
    seconds["lost"] = seconds.get("lost", 0.0) + self._lost
    # Lost seconds were spent in all phases of the loop, nearly all in steps.
    seconds["step"] = max(seconds.get("step", 0.0) - self._lost, 0.0)
    total = sum(seconds.values())
    return {
      "starts": self._starts,
      "goodput": seconds["step"] / total if total else 0.0,
      "total_seconds": total,
      "device_hours": self._device_seconds() / 3600,
      **{f"{name}_seconds": value for name, value in seconds.items()},
    }

  def _device_seconds(self) -> float:
    return self._earlier_of_devices + self._clock.total() * self._num_devices

  def _now(self) -> Seconds:
    """Returns the seconds of this start by phase; 'other' is the rest."""
    phases = dict(self._clock.seconds)
    return {**phases, "other": self._clock.total() - sum(phases.values())}


def has_saved(workdir: epath.Path) -> bool:
  """Returns True if the last start in `workdir` had a checkpoint."""
  return records.read_json(workdir / FILE).get("has_saved") is True


def _read(
  path: epath.Path, first_step: int
) -> tuple[Seconds, int, float | None]:
  """Reads the account of the earlier starts.

  Returns:
    Their seconds by phase, the number of this start, and their device-seconds;
    None if those were not recorded.
  """
  try:
    value: Any = json.loads(path.read_text())
    marks = [(int(step), dict(at)) for step, at in value["marks"]]
    earlier, starts = dict(value["earlier"]), int(value["starts"])
    kept, lost = _split(marks, marks[-1][1], first_step)
    total = _added(earlier, kept)
    total["lost"] = total.get("lost", 0.0) + value["lost"] + sum(lost.values())
    total["step"] = max(total.get("step", 0.0) - value["lost"], 0.0)
    of_devices = value.get("device_seconds")
    return total, starts + 1, of_devices and float(of_devices)
  except (OSError, ValueError, KeyError, TypeError, IndexError):
    return {}, 1, None  # The first start, or the past is unknown.


def _split(
  marks: list[Mark], now: Seconds, step: int
) -> tuple[Seconds, Seconds]:
  """Splits seconds into those up to a step and those after it."""
  before = [at for marked, at in marks if marked <= step]
  kept = before[-1] if before else {}
  return kept, {name: now[name] - kept.get(name, 0.0) for name in now}


def _added(one: Seconds, other: Seconds) -> Seconds:
  names = dict.fromkeys([*one, *other])
  return {name: one.get(name, 0.0) + other.get(name, 0.0) for name in names}
