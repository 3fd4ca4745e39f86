"""Meaning of the exit codes of vit_jax.train for the process that started it.

Imports only the standard library, as does all code that runs alongside a train
process.
"""

import enum
from collections.abc import Iterable


class Outcome(enum.IntEnum):
  """Outcomes of a process, the worse the higher."""

  FINISHED = 0
  PREEMPTED = 1  # It saved: start it again where there is a machine.
  LOST = 2  # It, or one of its fellows, died: start all again, a few times.
  STOPPED = 3  # A restart would repeat it, or somebody asked for the end.


# Preempted after saving; or by SIGTERM before there was anything to save.
PREEMPTED_CODES = (42, 143)
INTERRUPTED = 130
_FIRST_SIGNAL = 128


def outcome(code: int) -> Outcome:
  """Translates an exit code.

  Args:
    code: Exit code as a shell gives it: 128 + n for a process killed by signal
      n.
  """
  if code == 0:
    return Outcome.FINISHED
  if code in PREEMPTED_CODES:
    return Outcome.PREEMPTED
  # 137: its watchdog, or want of memory; 134: its coordinator, or the network.
  if code > _FIRST_SIGNAL and code != INTERRUPTED:
    return Outcome.LOST
  return Outcome.STOPPED


def of_all(codes: Iterable[int]) -> int:
  """The code that speaks for several processes: the first of the worst."""
  return max(codes, key=outcome)


def as_shell(returncode: int) -> int:
  """The exit code of a shell for the `returncode` of a `subprocess.Popen`."""
  return _FIRST_SIGNAL - returncode if returncode < 0 else returncode
