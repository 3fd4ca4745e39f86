"""Where the seconds of a run went, when it was killed and started again."""

import json

import pytest
from etils import epath

from vit_jax.rundir import goodput, timing
from vit_jax.rundir.goodput import Goodput


class Start:
  """One start of a run, with a clock that a test sets."""

  def __init__(self, workdir, monkeypatch, first_step, num_devices=1):
    self.now = 0.0
    for module in (timing, goodput):
      monkeypatch.setattr(module.time, "monotonic", lambda: self.now)
    self.clock = timing.Clock()
    self.account = Goodput(
      epath.Path(workdir), self.clock, first_step, num_devices
    )

  def spend(self, phase, seconds):
    with self.clock.phase(phase):
      self.now += seconds

  def steps(self, first, last, seconds=1.0):
    """Steps of so many seconds, each logged."""
    for step in range(first, last + 1):
      self.spend("data", 0.1)
      self.spend("step", seconds)
      self.account.mark(step)

  def save(self, step):
    self.spend("save", 2)
    self.account.mark(step, is_saved=True)


@pytest.fixture
def start(tmp_path, monkeypatch):
  return lambda *arguments: Start(tmp_path, monkeypatch, *arguments)


def seconds(summary, *names):
  return [summary[f"{name}_seconds"] for name in names]


def test_a_run_that_is_never_stopped_loses_nothing(start):
  run = start(0)
  run.spend("start", 3)
  run.spend("compile", 5)
  run.steps(1, 80)
  run.save(80)
  run.now += 4
  summary = run.account.summary()
  assert summary["starts"] == 1
  assert seconds(summary, "start", "compile", "save") == (
    pytest.approx([3, 5, 2])
  )
  assert seconds(summary, "data", "step", "lost", "other", "total") == (
    pytest.approx([8, 80, 0, 4, 102])
  )
  assert summary["goodput"] == pytest.approx(80 / 102)


def test_steps_that_a_killed_run_has_to_do_again_are_lost(start):
  run = start(0)
  run.spend("compile", 5)
  run.steps(1, 40)
  run.save(40)
  run.steps(41, 60)
  # Killed; the last mark is at most ten seconds old.
  again = start(40)
  again.spend("compile", 5)
  again.steps(41, 80)
  again.save(80)
  summary = again.account.summary()
  assert summary["starts"] == 2
  assert seconds(summary, "compile", "save", "step") == (
    pytest.approx([10, 4, 80])
  )
  (lost,) = seconds(summary, "lost")
  assert 22 - 11 <= lost <= 22


def test_a_start_that_is_killed_before_its_first_step_counts(start):
  start(0).spend("compile", 5)
  start(0).spend("compile", 5)
  assert start(0).account.summary()["starts"] == 3


def test_a_run_that_was_asked_to_stop_loses_nothing(start):
  run = start(0)
  run.steps(1, 25)
  run.save(25)
  run.spend("save", 3)
  run.account.close()
  again = start(25)
  again.steps(26, 30)
  summary = again.account.summary()
  assert seconds(summary, "lost", "save", "step") == (pytest.approx([0, 5, 30]))


def test_what_a_run_goes_back_behind_is_lost(start):
  run = start(0)
  run.steps(1, 20)
  run.save(20)
  run.steps(21, 35)
  run.account.went_back(20)
  run.steps(21, 40)
  run.save(40)
  expected = run.account.summary()
  assert seconds(expected, "lost") == pytest.approx([15 * 1.1])
  run.account.close()
  later = start(40).account.summary()
  assert later.pop("starts") == 2 and expected.pop("starts") == 1
  assert later == pytest.approx(expected)


def test_device_hours_are_those_of_all_devices_of_all_starts(start, tmp_path):
  run = start(0, 8)
  run.steps(1, 100)
  run.now = 7200.0
  run.account.close()
  # Killed at a step that is done again: its time was paid for.
  again = start(50, 4)
  again.now = 1800.0
  assert again.account.summary()["device_hours"] == pytest.approx(
    2 * 8 + 0.5 * 4
  )
  # An account of before devices were counted.
  again.account.close()
  account = json.loads((tmp_path / goodput.FILE).read_text())
  del account["device_seconds"]
  (tmp_path / goodput.FILE).write_text(json.dumps(account))
  assert start(100, 2).account.summary()["device_hours"] == pytest.approx(
    2.5 * 2
  )


def test_many_saves_make_no_long_file(start, tmp_path):
  run = start(0)
  for step in range(1, 2000):
    run.save(step)
  marks = json.loads((tmp_path / goodput.FILE).read_text())["marks"]
  assert len(marks) <= goodput._MAX_MARKS
  assert [step for step, _ in marks[-40:]] == list(range(1960, 2000))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"marks": []}', "null"])
def test_an_account_that_cannot_be_read_starts_afresh(start, tmp_path, text):
  (tmp_path / goodput.FILE).write_text(text)
  assert start(7).account.summary()["starts"] == 1


def test_a_start_that_was_killed_before_its_first_save_has_not_saved(
  start, tmp_path
):
  workdir = epath.Path(tmp_path)
  assert not goodput.has_saved(workdir)
  start(0).steps(1, 80)
  assert not goodput.has_saved(workdir)
  run = start(0)
  run.steps(1, 80)
  run.spend("save", 2)  # The phase that ends a start, with nothing to save.
  run.account.close()
  assert not goodput.has_saved(workdir)
  run = start(0)
  with run.clock.phase("save"):  # It is still open when the save is recorded.
    run.account.mark(1, is_saved=True)
  assert goodput.has_saved(workdir)
  start(80)
  assert goodput.has_saved(workdir)


@pytest.mark.parametrize("marks", [None, [1], [[1, None]], "x", 3])
def test_nothing_is_known_from_a_foreign_account(tmp_path, marks):
  (tmp_path / goodput.FILE).write_text(json.dumps({"marks": marks}))
  assert not goodput.has_saved(epath.Path(tmp_path))


def test_only_the_last_start_counts(start, tmp_path):
  """Its checkpoints may have been removed since."""
  start(0).save(80)
  start(80).save(160)
  start(0).steps(1, 20)
  assert not goodput.has_saved(epath.Path(tmp_path))


def test_a_run_that_went_back_to_its_start_has_no_checkpoint(start, tmp_path):
  run = start(0)
  run.save(80)
  run.account.went_back(0)
  assert not goodput.has_saved(epath.Path(tmp_path))  # It may be killed.
  run.account.close()
  assert not goodput.has_saved(epath.Path(tmp_path))
