"""Errors of saves that run in the background."""

import errno
import json
import threading
import time

import jax
import jax.numpy as jnp
import pytest
from etils import epath
from orbax.checkpoint._src.futures import future

from tests import experiments
from vit_jax import records
from vit_jax.checkpoint import atomic_commit, manifest
from vit_jax.checkpoint.store import CheckpointStore, SaveError
from vit_jax.errors import UserError
from vit_jax.rundir.position import Position
from vit_jax.rundir.run_directory import RunDirectory
from vit_jax.rundir.timing import Clock
from vit_jax.train import train

STATE = {"params": {"x": jnp.zeros(3)}, "ema_params": None}


@pytest.fixture
def failing(monkeypatch):
  """Numbers of steps whose saves fail when almost all is written."""
  steps = set()
  write = manifest.write

  def fail(directory):
    if int(directory.name.split(".")[0]) in steps:
      raise OSError(5, "Input/output error")
    write(directory)

  monkeypatch.setattr(manifest, "write", fail)
  return steps


def summary(workdir):
  return json.loads((workdir / "summary.json").read_text())


def saved(workdir):
  return sorted(path.name for path in (workdir / "checkpoints").iterdir())


def test_an_error_surfaces_without_another_save(tmp_path, failing):
  failing.add(2)
  store = CheckpointStore(tmp_path, keep_last=9)
  store.save(1, STATE, {})
  store.check()
  store.save(2, STATE, {})
  deadline = time.monotonic() + 100
  with pytest.raises(SaveError, match="step 2: .*Input/output error"):
    while time.monotonic() < deadline:
      store.check()
      time.sleep(0.001)
  assert saved(tmp_path) == ["1"]  # No temporary directory either.
  store.check()
  store.save(3, STATE, {})  # The next one may succeed.
  store.close()
  assert saved(tmp_path) == ["1", "3"]


def test_the_save_before_is_removed_by_the_next_that_succeeds(
  tmp_path, failing
):
  """Where saves go on failing, as on a full disk, none is left over."""
  failing |= {2, 4}
  store = CheckpointStore(tmp_path, keep_last=1)
  for step in range(1, 6):
    store.save(step, STATE, {})
    if step not in failing:
      store.wait()
      assert saved(tmp_path) == [str(step)]
      continue
    with pytest.raises(SaveError):
      store.wait()
    assert store.latest_step() == step - 1
    assert saved(tmp_path) == [str(step - 1)]
  store.close()


def test_remains_that_a_thread_still_writes_into_are_removed_later(
  tmp_path, failing, monkeypatch
):
  failing.add(2)
  kind = type(epath.Path(tmp_path))
  refusals, rmtree = [errno.ENOTEMPTY] * 3, kind.rmtree

  def remove(path, *arguments, **options):
    if refusals and atomic_commit.TEMPORARY in path.name:
      raise OSError(refusals.pop(), "Directory not empty")
    return rmtree(path, *arguments, **options)

  monkeypatch.setattr(kind, "rmtree", remove)
  store = CheckpointStore(tmp_path)
  store.save(1, STATE, {})
  store.save(2, STATE, {})
  with pytest.raises(SaveError):
    store.wait()
  assert not refusals  # They did stand in the way.
  assert saved(tmp_path) == ["1"]


def test_nothing_of_a_failed_save_is_written_after_its_error(
  tmp_path, monkeypatch
):
  wait_for_signals = future._SignalingThread._wait_for_signals

  def begin(thread):  # The state's thread when the metadata's has failed.
    wait_for_signals(thread)
    if "json" in thread.name:
      raise OSError(errno.ENOSPC, "No space left on device")
    if "array" in thread.name:
      time.sleep(1)
      ended.append(thread.name)

  ended = []
  monkeypatch.setattr(future._SignalingThread, "_wait_for_signals", begin)
  store = CheckpointStore(tmp_path)
  store.save(1, STATE, {})
  with pytest.raises(SaveError, match="step 1: No space left"):
    store.wait()
  assert ended
  assert saved(tmp_path) == []
  time.sleep(1)
  assert saved(tmp_path) == []


def test_an_error_of_the_last_save_surfaces_on_close(tmp_path, failing):
  failing.add(2)
  store = CheckpointStore(tmp_path)
  store.save(1, STATE, {})
  store.save(2, STATE, {})
  with pytest.raises(SaveError, match="step 2"):
    store.close()
  assert saved(tmp_path) == ["1"]


def test_an_error_surfaces_when_the_next_save_begins(tmp_path, failing):
  failing.add(1)
  store = CheckpointStore(tmp_path)
  store.save(1, STATE, {})
  with pytest.raises(SaveError, match="step 1"):
    store.save(2, STATE, {})
  store.save(2, STATE, {})
  store.close()
  assert saved(tmp_path) == ["2"]


@pytest.mark.slow
def test_a_run_ends_soon_after_a_save_failed(tmp_path, failing):
  failing.add(100)
  config = experiments.config(
    total_steps=1000, checkpoint__every_steps=100, evals={}
  )
  with pytest.raises(UserError) as error:
    train(config, str(tmp_path))
  assert "The checkpoint of step 100 could not be saved" in str(error.value)
  assert "no other had been saved" in str(error.value)
  assert records.read_lines(tmp_path / "metrics.jsonl")[-1]["step"] < 200
  assert summary(tmp_path)["status"] == "failed"
  assert not (tmp_path / "run.lock").exists()


@pytest.mark.slow
def test_a_run_whose_last_save_fails_does_not_end_well(tmp_path, failing):
  failing.add(6)
  for policy in ("stop", "continue"):
    config = experiments.config(checkpoint__on_save_error=policy)
    with pytest.raises(UserError, match="step 6 .*that of step 4 is untouched"):
      train(config, str(tmp_path / policy))
    assert summary(tmp_path / policy)["status"] == "failed"
    assert saved(tmp_path / policy)[-1] == "4"


def test_a_run_that_is_to_go_on_does_so_with_an_alarm(
  tmp_path, failing, caplog
):
  failing.add(4)
  config = experiments.config(
    checkpoint__on_save_error="continue", checkpoint__keep_last=9
  )
  assert train(config, str(tmp_path)) == 0
  alarms = [r.message for r in caplog.records if "ALARM" in r.message]
  assert len(alarms) == 1 and "step 4 could not be saved" in alarms[0]
  assert saved(tmp_path) == ["2", "6"]
  assert summary(tmp_path)["status"] == "finished"


def test_a_failed_save_that_ends_a_run_is_told_once(tmp_path, failing, caplog):
  failing.add(6)
  with pytest.raises(UserError, match="step 6 could not be saved"):
    train(experiments.config(), str(tmp_path))
  assert "could not be saved" not in caplog.text


def test_it_is_told_once_if_an_earlier_checkpoint_is_removed_meanwhile(
  tmp_path, failing, caplog
):
  failing.add(4)
  parts = experiments.build()
  with pytest.raises(UserError, match="that of step 2 is untouched"):
    with RunDirectory(str(tmp_path), parts, Clock()) as directory:
      state = directory.restore_or_init()
      directory.save(2, state, Position())
      directory.save(4, state, Position())
      try:
        directory.save(6, state, Position())
      finally:
        directory.store.go_back(0)
  assert "could not be saved" not in caplog.text


@pytest.mark.parametrize(
  "name", ["metrics.jsonl", "config.json", "evaluators.json"]
)
def test_a_record_that_cannot_be_opened_is_named_and_no_lock_left(
  tmp_path, name
):
  (tmp_path / name).mkdir()
  with pytest.raises(UserError, match="cannot be read or written") as error:
    train(experiments.config(), str(tmp_path))
  assert name in str(error.value)
  assert not (tmp_path / "run.lock").exists()


def test_a_failed_save_is_told_where_another_error_ends_the_run(
  tmp_path, failing, caplog
):
  failing.add(2)
  parts = experiments.build()
  with pytest.raises(KeyError):
    with RunDirectory(str(tmp_path), parts, Clock()) as directory:
      directory.save(2, directory.restore_or_init(), Position())
      raise KeyError
  assert caplog.text.count("step 2 could not be saved") == 1


@pytest.mark.parametrize("at_the_end", [False, True])
@pytest.mark.parametrize(
  ("count", "error", "code"),
  [
    # Seen in a process when the other one of its run was killed.
    (2, ValueError("UNKNOWN: Gloo AllGather failed: Connection closed"), 134),
    (
      2,
      jax.errors.JaxRuntimeError("DEADLINE_EXCEEDED: Barrier timed out"),
      134,
    ),
    (2, OSError(errno.ENOSPC, "No space left on device"), 1),
    (1, jax.errors.JaxRuntimeError("UNAVAILABLE: the bucket"), 1),
  ],
)
def test_a_save_that_lacks_another_process_may_be_tried_again(
  tmp_path, monkeypatch, count, error, code, at_the_end
):
  def fail(directory):
    raise error

  def counted():  # Not in the thread of the save, which would look for others.
    is_main = threading.current_thread() is threading.main_thread()
    return count if is_main else 1

  monkeypatch.setattr(manifest, "write", fail)
  parts = experiments.build()
  with pytest.raises(UserError, match="step 2 could not be saved") as left:
    with RunDirectory(str(tmp_path), parts, Clock()) as directory:
      directory.save(2, directory.restore_or_init(), Position())
      monkeypatch.setattr(jax, "process_count", counted)
      if at_the_end:
        directory.finish("finished")
      deadline = time.monotonic() + 100
      while time.monotonic() < deadline:
        directory.check()
        time.sleep(0.001)
  assert left.value.exit_code == code
  assert summary(tmp_path)["status"] == "failed"
