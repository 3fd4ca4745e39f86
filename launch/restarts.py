"""Restarts a run that was preempted or lost a process."""

import time
from collections.abc import Callable

from launch.exit_codes import Outcome, outcome

# A start that lasted so long was a good one; the count of failures restarts.
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
    attempt: Runs the command to its end and returns the exit code.
    max_restarts: Number of restarts allowed without an hour's run in between.
    restart_preempted: Restarts here after a preemption; otherwise the scheduler
      that finds the next machine restarts.
    asked_to_stop: Returns True once this machine's processes were asked to end;
      then there is no further attempt.
    say: Receives a line about each restart.
    now: Clock, in seconds.

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
