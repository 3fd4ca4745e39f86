import concurrent.futures
import math
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from vit_jax.data.building.workers import Workers
from vit_jax.errors import UserError


def _ignore(*_):
  pass


@pytest.mark.parametrize("count", [1, 2])
def test_every_task_gives_its_result_once(count):
  with Workers(count, _ignore) as workers:
    found = list(workers.run(math.sqrt, range(50), "roots", 50))
  assert sorted(found) == [math.sqrt(i) for i in range(50)]


def test_tasks_are_made_as_they_are_needed():
  """A thousand lists of files need not be there at once."""
  made = []
  tasks = (made.append(i) or i for i in range(1000))
  with Workers(1, _ignore) as workers:
    results = workers.run(math.sqrt, tasks, "roots", 1000)
    next(results)
    assert len(made) < 20


def test_progress_goes_from_what_was_done_before():
  shown = []
  with Workers(1, lambda *all: shown.append(all)) as workers:
    list(workers.run(math.sqrt, range(3), "roots", 10, done=7))
  assert shown[-1] == ("roots", 7, 10)  # The tasks did not count anything.


def test_an_error_of_a_task_is_raised(monkeypatch):
  # Python has this only once a pool of processes was made.
  monkeypatch.delattr(concurrent.futures, "process", raising=False)
  with Workers(1, _ignore) as workers:
    with pytest.raises(ValueError, match="math domain"):
      list(workers.run(math.sqrt, [1, -1], "roots", 2))


def test_a_lost_process_is_a_sentence():
  with Workers(2, _ignore) as workers:
    with pytest.raises(UserError, match="roots was lost.*same command again"):
      list(workers.run(os._exit, [1], "roots", 1))


_SLEEPERS = """
import time
from vit_jax.data.building.workers import Workers
if __name__ == "__main__":
  with Workers(2, lambda *_: None) as workers:
    list(workers.run(time.sleep, [600] * 8, "naps", 8))
"""


@pytest.mark.skipif(not os.path.exists("/proc/self"), reason="needs /proc")
def test_processes_end_when_the_first_one_is_killed(tmp_path, repo):
  script = tmp_path / "sleepers.py"
  script.write_text(_SLEEPERS)
  first = subprocess.Popen(
    [sys.executable, script], env={**os.environ, "PYTHONPATH": str(repo)}
  )
  children = pathlib.Path(f"/proc/{first.pid}/task/{first.pid}/children")
  pids: set[str] = set()
  deadline = time.monotonic() + 100
  # Two workers and Python's own resource tracker.
  while len(pids) < 3 and time.monotonic() < deadline:
    time.sleep(0.05)
    pids = set(children.read_text().split())
  assert len(pids) == 3
  first.send_signal(signal.SIGKILL)
  first.wait()
  while pids and time.monotonic() < deadline:
    time.sleep(0.05)
    pids = {pid for pid in pids if _lives(pid)}
  assert not pids


def _lives(pid):
  try:
    state = pathlib.Path(f"/proc/{pid}/stat").read_text()
  except OSError:
    return False
  return state.rpartition(")")[2].split()[0] != "Z"
