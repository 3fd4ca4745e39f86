"""What counts as a sign of life, and what becomes of a run without any."""

import threading
import time

import pytest
from etils import epath

from vit_jax import heartbeat
from vit_jax.training.timing import Clock
from vit_jax.training.watchdog import Watchdog

LIMIT = 0.4


class Bitten:
  """Runs a function under a watchdog; tells whether it bit."""

  def __init__(self, tmp_path, limit=LIMIT):
    self.clock = Clock()
    self.end = threading.Event()
    self.watchdog = Watchdog(
      limit, self.clock, epath.Path(tmp_path), self.end.set
    )

  def __call__(self, function, phase="step"):
    with self.watchdog, self.clock.phase(phase):
      function()
    return self.end.is_set()


@pytest.fixture
def bitten(tmp_path):
  return Bitten(tmp_path)


def stand_still():
  time.sleep(3 * LIMIT)


def test_standing_still_is_the_end(bitten, capfd, caplog):
  assert bitten(stand_still, "data")
  said = caplog.text
  assert "has stood still for" in said and "waiting for data" in said
  stacks = capfd.readouterr().err
  assert "stand_still" in stacks and stacks.lower().count("thread 0x") > 1


@pytest.mark.parametrize("limit", [0, 60])
def test_it_bites_no_sooner_than_it_may(limit, tmp_path):
  assert not Bitten(tmp_path, limit)(stand_still)


def test_batches_from_another_thread_are_signs_of_life(bitten):
  done = threading.Event()

  def hand_over():
    while not done.wait(LIMIT / 10):
      heartbeat.beat()

  thread = threading.Thread(target=hand_over)
  thread.start()
  assert not bitten(stand_still, "evaluate")
  done.set()
  thread.join()


def test_a_moving_stack_is_a_sign_of_life(bitten):
  def work():
    end = time.monotonic() + 3 * LIMIT
    while time.monotonic() < end:
      sum(range(100))

  assert not bitten(work)


def test_a_suspended_process_is_given_time_when_it_goes_on(bitten):
  closed = bitten.watchdog._closed
  wait, pauses = closed.wait, iter([0.01, 0.01, 3 * LIMIT])

  def suspended(seconds):
    time.sleep(next(pauses, 0))
    return wait(seconds)

  closed.wait = suspended
  assert not bitten(lambda: time.sleep(3.3 * LIMIT))


def test_compiling_may_take_as_long_as_it_takes(bitten):
  code = "def backend_compile(seconds):\n  time.sleep(seconds)\n"
  names = {"time": time}
  exec(compile(code, "/site-packages/jax/_src/compiler.py", "exec"), names)
  assert not bitten(lambda: names["backend_compile"](3 * LIMIT))


def test_the_compiler_is_where_it_was():
  from jax._src import compiler

  from vit_jax.training import watchdog

  assert compiler.__file__.endswith(watchdog._COMPILER)


def test_a_save_that_grows_is_a_sign_of_life(bitten, tmp_path):
  done = threading.Event()
  path = tmp_path / "7.tmp" / "array"
  path.parent.mkdir()

  def write():
    with open(path, "ab", buffering=0) as file:
      while not done.wait(LIMIT / 10):
        file.write(b"x")

  thread = threading.Thread(target=write)
  thread.start()
  assert not bitten(stand_still, "save")
  done.set()
  thread.join()


def test_a_save_that_stands_still_is_the_end(bitten, tmp_path):
  (tmp_path / "7.tmp").mkdir()
  (tmp_path / "7.tmp" / "array").write_bytes(b"x")
  assert bitten(stand_still, "save")
