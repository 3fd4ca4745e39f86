"""What a tracker does in its thread, whatever becomes of it."""

import importlib
import threading
import time

import pytest

from tests.rundir.trackers import toy
from vit_jax.rundir.trackers.background import Background
from vit_jax.rundir.trackers.contract import TrackerKind
from vit_jax.rundir.trackers.memory import Memory


@pytest.fixture
def begin(store, info):
  def begin(**options):
    memory = Memory(info.directory / "trackers.json", "toy", threading.Lock())
    return Background("toy", store.kind, info, memory, [], **options)

  return begin


def end(background):
  background.finish("finished")
  background.wait(time.monotonic() + 60)


def test_a_start_that_fails_is_tried_again_and_told_once(store, begin, caplog):
  store.start_errors = [ConnectionError("no route to host"), ValueError()]
  background = begin(seconds_between_starts=0.01)
  for step in (1, 2, 3):
    background.write(step, {"train/loss": 0.5})
  while not store.runs:
    time.sleep(0.01)
  end(background)
  assert store.only == [(step, {"train/loss": 0.5}) for step in (1, 2, 3)]
  assert caplog.text.count("cannot be started: no route to host") == 1
  assert caplog.text.count("is incomplete") == 1


def test_a_start_that_another_thread_disturbed_is_tried_at_once(
  store, begin, caplog
):
  store.start_errors = [
    SystemError("AST constructor recursion depth mismatch")
  ] * 2
  background = begin(seconds_between_starts=3600)
  background.write(1, {"train/loss": 0.5})
  end(background)
  assert store.only == [(1, {"train/loss": 0.5})]
  assert caplog.text == ""


def test_a_package_that_was_imported_in_part_is_imported_anew(
  info, tmp_path, monkeypatch, caplog
):
  """Python keeps the modules in a package whose own import failed."""
  package = tmp_path / "half_imported"
  package.mkdir()
  (package / "__init__.py").write_text(
    "import os\n"
    "import half_imported.whole\n"
    "if 'HALF_IMPORTED' not in os.environ:\n"
    "  os.environ['HALF_IMPORTED'] = '1'\n"
    "  raise SystemError('AST constructor recursion depth mismatch')\n"
    "half_imported.whole.is_there\n"
  )
  (package / "whole.py").write_text("is_there = True")
  monkeypatch.syspath_prepend(tmp_path)
  monkeypatch.setenv("HALF_IMPORTED", "")
  monkeypatch.delenv("HALF_IMPORTED")
  store = toy.Store("half_imported")

  def start(run_info, memory):
    importlib.import_module("half_imported")
    return store.kind.start(run_info, memory)

  kind = TrackerKind("half_imported", start, store.kind.abandon)
  memory = Memory(info.directory / "trackers.json", "toy", threading.Lock())
  background = Background("toy", kind, info, memory, [])
  background.write(1, {"train/loss": 0.5})
  end(background)
  assert store.only == [(1, {"train/loss": 0.5})]
  assert caplog.text == ""


def test_a_run_that_ends_does_not_wait_for_the_next_try(store, begin):
  store.start_errors = [ConnectionError("no route to host")]
  background = begin(seconds_between_starts=3600)
  end(background)
  assert (store.starts, store.abandoned) == (1, 1)


def test_lines_wait_for_a_slow_tracker_up_to_a_number(store, begin, caplog):
  store.open.clear()
  background = begin(max_waiting=10)
  for step in range(1, 101):
    background.write(step, {"train/loss": 0.5})
  assert caplog.text.count("it is too slow") == 1
  store.open.set()
  end(background)
  kept = [step for step, _ in store.only]
  # Those that were with the tracker, and those that waited.
  assert 10 <= len(kept) <= 20
  assert kept == sorted(kept)


def write(background, store, steps, refusals, writes=2):
  """Writes each step once the tracker has seen the one before.

  One that is refused is expected to lead to so many `writes`.
  """
  for step in steps:
    seen = store.writes
    background.write(step, {"train/loss": 0.5})
    while store.writes < seen + (writes if step in refusals else 1):
      time.sleep(0.001)


def test_lines_refused_in_an_outage_are_written_when_it_is_over(
  store, begin, caplog
):
  background = begin()
  # Step 2 is refused; then 2 and 3 together, and 3 alone.
  store.write_errors = [None, *[ConnectionError("server error 500")] * 3]
  write(background, store, (1, 2, 3, 4), refusals={3})
  end(background)
  assert [step for step, _ in store.only] == [1, 2, 3, 4]
  assert caplog.text.count("is incomplete") == 1


def test_lines_of_an_outage_that_ends_between_two_tries_are_written(
  store, begin
):
  background = begin()
  # Step 2 is refused; then 2 and 3 together, and 3 alone is taken.
  store.write_errors = [None, *[ConnectionError("server error 500")] * 2]
  write(background, store, (1, 2), refusals=())
  write(background, store, (3, 4), refusals={3}, writes=3)
  end(background)
  assert sorted(step for step, _ in store.only) == [1, 2, 3, 4]


def test_lines_refused_to_the_last_are_tried_once_more_at_the_end(store, begin):
  background = begin()
  store.write_errors = [ConnectionError("server error 500")]
  write(background, store, (1,), refusals=())
  end(background)
  assert [step for step, _ in store.only] == [1]


def test_a_line_that_is_refused_for_itself_does_not_hold_up_later_ones(
  store, begin
):
  background = begin()
  store.refuses = lambda lines: any("bad" in line for _, line in lines)
  background.write(1, {"bad": 0.5})
  while not store.writes:
    time.sleep(0.001)
  # 1 and 2 together, 2 alone, and 1 once more, which was not for an outage.
  write(background, store, (2, 3), refusals={2}, writes=3)
  end(background)
  assert [step for step, _ in store.only] == [2, 3]


def test_lines_that_wait_for_the_end_of_an_outage_are_limited(store, begin):
  background = begin(max_waiting=3)
  store.write_errors = [ConnectionError("server error 500")] * 9
  write(background, store, range(1, 6), refusals=range(2, 6))
  end(background)
  assert [step for step, _ in store.only] == [3, 4, 5]


def test_an_end_that_fails_is_told_and_the_tracker_given_up(
  store, begin, caplog, monkeypatch
):
  background = begin()
  background.write(1, {"train/loss": 0.5})
  store.statuses = None
  end(background)
  assert caplog.text.count("is incomplete") == 1
  assert store.abandoned == 1
