"""Starts a run again when it was preempted or lost a process."""

import time
from collections.abc import Callable

from launch.exit_codes import Outcome, outcome

# A start that lasted so long was a good one; failures are counted anew.
GOOD_SECONDS = 3600


def repeat(
  attempt: Callable[[], int],
  *,
  max_restarts: int,
  restart_preempted: bool,
  asked_to_stop: Callable[[], bool],
  say: Callable[[str], None],
  now: Callable[[], float] = time.monotonic,
) -> int:
  """Makes attempts until one ends for good.

  Args:
    attempt: runs to its end and returns the exit code.
    max_restarts: how often to start again without an hour's run in between.
    restart_preempted: whether to start again here after a preemption; else it
      is left to whoever finds the next machine.
    asked_to_stop: whether somebody asked this machine's processes to end;
      then there is no other attempt.
    say: takes a line about a restart.
    now: seconds.

  Returns:
    The exit code of the last attempt.
  """
  restarts = 0
  while True:
    start = now()
    code = attempt()
    what = outcome(code)
    if what in (Outcome.FINISHED, Outcome.STOPPED) or asked_to_stop():
      return code
    if what == Outcome.PREEMPTED and not restart_preempted:
      return code
    if now() - start >= GOOD_SECONDS:
      restarts = 0
    if restarts == max_restarts:
      say(f"ended with exit code {code} after {restarts} restarts; giving up")
      return code
    restarts += 1
    say(f"ended with exit code {code}; restart {restarts} of {max_restarts}")
