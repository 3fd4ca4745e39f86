"""Results come in order, and no more of them than are asked for."""

import itertools
import math
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from vit_jax.data import parallel
from vit_jax.errors import UserError


def test_results_are_those_of_map_whoever_is_first():
  def late(number):
    time.sleep(0.002 * (5 - number % 5))
    return number**2

  found = list(parallel.in_threads(late, range(40), num_threads=4))
  assert found == [number**2 for number in range(40)]


def test_calls_are_under_way_at_once():
  together = threading.Barrier(3, timeout=100)
  results = parallel.in_threads(
    lambda _: together.wait(), range(3), num_threads=3
  )
  assert sorted(results) == [0, 1, 2]


def _processes(function, tasks, count):
  return parallel.in_processes(
    function, tasks, num_processes=count, what="roots"
  )


@pytest.mark.parametrize("count", [1, 2])
def test_processes_give_results_in_order(count):
  found = _processes(math.sqrt, range(50), count)
  assert list(found) == [math.sqrt(i) for i in range(50)]


@pytest.mark.parametrize("in_processes", [False, True])
def test_tasks_are_taken_as_results_are(in_processes):
  """A thousand lists of files need not be there at once."""
  taken = itertools.count()
  tasks = (next(taken) for _ in itertools.repeat(None))
  if in_processes:
    results = _processes(abs, tasks, 1)
  else:
    results = parallel.in_threads(abs, tasks, num_threads=2)
  assert [next(results) for _ in range(3)] == [0, 1, 2]
  results.close()
  assert next(taken) < 12


def test_an_error_comes_out_where_its_result_would():
  def call(number):
    return 1 // (2 - number)

  results = parallel.in_threads(call, range(9), num_threads=3)
  assert [next(results), next(results)] == [0, 1]
  with pytest.raises(ZeroDivisionError):
    next(results)


@pytest.mark.parametrize("count", [1, 2])
def test_an_error_in_a_process_is_raised(count):
  with pytest.raises(ValueError, match="math domain"):
    list(_processes(math.sqrt, [1, -1], count))


def test_a_lost_process_is_a_sentence():
  with pytest.raises(UserError, match="roots was lost.*same command again"):
    list(_processes(os._exit, [1], 2))


_SLEEPERS = """
import time
from vit_jax.data import parallel
if __name__ == "__main__":
  list(parallel.in_processes(
    time.sleep, [600] * 8, num_processes=2, what="naps"
  ))
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
