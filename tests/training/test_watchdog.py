"""What counts as a sign of life, and what becomes of a run without any.

Time stands still here but for the watchdog's waits, which end at once: what
it sees does not depend on how busy the machine is.
"""

import threading

import pytest
from etils import epath

from vit_jax import heartbeat
from vit_jax.rundir.timing import Clock
from vit_jax.training.watchdog import Watchdog

LIMIT = 60.0
LOOKS = 200  # Ten times as many as the watchdog has in its limit.


class Waits:
  """Stands in for the event that ends a watchdog's waits for its next look."""

  def __init__(self, looks, before_look):
    self.now = 0.0
    self.begun, self.past = threading.Event(), threading.Event()
    self._left, self._before_look = looks, before_look
    self._closed = threading.Event()

  def wait(self, seconds):
    self.begun.wait()
    if not self._left:
      self.past.set()
      return self._closed.wait()
    self._left -= 1
    self.now += seconds
    self._before_look()
    return self._closed.is_set()

  def set(self):
    self._closed.set()


class Bitten:
  """Runs a function under a watchdog; tells whether it bit.

  The function is given what to call to stand still until the end of the looks.
  """

  def __init__(self, directory):
    self.directory = directory
    self.clock = Clock()

  def __call__(
    self,
    function=lambda stand_still: stand_still(),
    phase="step",
    limit=LIMIT,
    looks=LOOKS,
    before_look=lambda: None,
  ):
    self.waits = Waits(looks, before_look)
    bitten = threading.Event()

    def end():
      bitten.set()
      self.waits.past.set()

    watchdog = Watchdog(
      limit,
      self.clock,
      end,
      now=lambda: self.waits.now,
    )
    watchdog._closed = self.waits
    with watchdog, self.clock.phase(phase):
      watchdog.start(epath.Path(self.directory))
      self.waits.begun.set()
      function(self.waits.past.wait)
    return bitten.is_set()


@pytest.fixture
def bitten(tmp_path):
  return Bitten(tmp_path)


def test_standing_still_is_the_end(bitten, capfd, caplog):
  def wait_for_a_batch(stand_still):
    stand_still()

  assert bitten(wait_for_a_batch, "data")
  said = caplog.text
  assert "has stood still for" in said and "waiting for data" in said
  stacks = capfd.readouterr().err
  assert "wait_for_a_batch" in stacks
  assert stacks.lower().count("thread 0x") > 1


def test_it_bites_no_sooner_than_it_may(bitten):
  assert not bitten(looks=19)
  assert bitten()
  # A look or two may have seen the function on its way to standing still.
  assert LIMIT <= bitten.waits.now < 1.5 * LIMIT


def test_without_a_limit_there_is_no_watchdog(bitten):
  def look_around(stand_still):
    assert "watchdog" not in [thread.name for thread in threading.enumerate()]

  assert not bitten(look_around, limit=0)


def test_batches_from_another_thread_are_signs_of_life(bitten):
  assert not bitten(phase="evaluate", before_look=heartbeat.beat)


def test_a_moving_stack_is_a_sign_of_life(bitten):
  turn, taken = threading.Semaphore(0), threading.Semaphore(0)

  def move():
    turn.release()
    taken.acquire()

  def work(stand_still):
    for _ in range(LOOKS // 2):
      turn.acquire()
      taken.release()
      turn.acquire()
      taken.release()
    stand_still()

  assert not bitten(work, before_look=move)


def test_a_suspended_process_is_given_time_when_it_goes_on(bitten):
  looks = iter(range(LOOKS))

  def sleep():
    if next(looks) == 2:
      bitten.waits.now += 3 * LIMIT

  assert not bitten(looks=20, before_look=sleep)


def test_compiling_may_take_as_long_as_it_takes(bitten):
  code = "def backend_compile(wait):\n  wait()\n"
  names = {}
  exec(compile(code, "/site-packages/jax/_src/compiler.py", "exec"), names)
  arrived = threading.Event()

  def compile_for_long(stand_still):
    def wait():
      arrived.set()
      stand_still()

    names["backend_compile"](wait)

  assert not bitten(compile_for_long, before_look=arrived.wait)


def test_the_compiler_is_where_it_was():
  from jax._src import compiler

  from vit_jax.training import watchdog

  assert compiler.__file__.endswith(watchdog._COMPILER)


def test_a_save_that_grows_is_a_sign_of_life(bitten, tmp_path):
  path = tmp_path / "7.tmp" / "array"
  path.parent.mkdir()

  def write():
    with open(path, "ab") as file:
      file.write(b"x")

  assert not bitten(phase="save", before_look=write)


def test_a_save_that_stands_still_is_the_end(bitten, tmp_path):
  (tmp_path / "7.tmp").mkdir()
  (tmp_path / "7.tmp" / "array").write_bytes(b"x")
  assert bitten(phase="save")
