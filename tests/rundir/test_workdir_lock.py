"""A workdir belongs to one living job."""

import json
import os
import shutil
import subprocess
import sys
import time

import pytest

from vit_jax.errors import UserError
from vit_jax.rundir import workdir_lock
from vit_jax.rundir.workdir_lock import WorkdirLock

# Seconds to wait for what comes in one on an idle machine.
PATIENCE = 100

HOLDER = """
import sys, time
from vit_jax.rundir.workdir_lock import WorkdirLock
lock = WorkdirLock(sys.argv[1])
print("held", flush=True)
time.sleep(100)
"""


@pytest.fixture
def holder(repo, tmp_path):
  """A process that holds tmp_path."""
  process = subprocess.Popen(
    [sys.executable, "-c", HOLDER, str(tmp_path)],
    cwd=repo,
    stdout=subprocess.PIPE,
    text=True,
  )
  assert process.stdout.readline() == "held\n"
  yield process
  process.kill()
  process.communicate()


@pytest.fixture
def quick(monkeypatch):
  monkeypatch.setattr(workdir_lock, "RENEW_SECONDS", 0.2)
  monkeypatch.setattr(workdir_lock, "DEAD_SECONDS", 1.5)


def content(workdir):
  return json.loads((workdir / "run.lock").read_text())


def write(workdir, **changes):
  """A lock of another job."""
  lock = WorkdirLock(workdir)
  lock.release()
  holder = lock._owner | {"token": "other"} | changes
  (workdir / "run.lock").write_text(json.dumps(holder))


def test_a_second_job_is_refused_by_host_and_process(holder, tmp_path):
  with pytest.raises(UserError) as error:
    WorkdirLock(tmp_path)
  assert f"process {holder.pid} on host {os.uname().nodename}" in str(
    error.value
  )
  assert content(tmp_path)["pid"] == holder.pid


def test_a_copy_of_a_workdir_is_free_soon_after(quick, holder, tmp_path):
  copy = tmp_path / "copy"
  copy.mkdir()
  shutil.copy(tmp_path / "run.lock", copy)
  WorkdirLock(copy).release()
  with pytest.raises(UserError, match=f"process {holder.pid}"):
    WorkdirLock(tmp_path)


def test_a_workdir_that_is_renamed_is_still_in_use(repo, tmp_path):
  workdir = tmp_path / "before"
  workdir.mkdir()
  with subprocess.Popen(
    [sys.executable, "-c", HOLDER, str(workdir)],
    cwd=repo,
    stdout=subprocess.PIPE,
    text=True,
  ) as process:
    assert process.stdout.readline() == "held\n"
    workdir.rename(tmp_path / "after")
    with pytest.raises(UserError, match=f"process {process.pid}"):
      WorkdirLock(tmp_path / "after")
    process.kill()


def test_a_killed_jobs_lock_is_taken_over_at_once(
  holder, tmp_path, caplog, monkeypatch
):
  holder.kill()
  holder.wait()
  monkeypatch.setattr(workdir_lock.time, "sleep", None)  # It need not wait.
  lock = WorkdirLock(tmp_path)
  assert f"was held by process {holder.pid}" in caplog.text
  assert content(tmp_path)["pid"] == os.getpid()
  lock.release()


def test_a_lock_goes_with_its_job(tmp_path):
  WorkdirLock(tmp_path).release()
  assert list(tmp_path.iterdir()) == []


def test_a_process_number_that_was_given_again_holds_nothing(tmp_path):
  write(tmp_path, pid=1, started="1")
  WorkdirLock(tmp_path).release()


def test_a_run_of_this_process_that_failed_holds_nothing(tmp_path):
  first = WorkdirLock(tmp_path)
  second = WorkdirLock(tmp_path)
  second.release()
  first.release()


def test_a_job_elsewhere_that_gives_signs_of_life_is_left_alone(tmp_path):
  write(tmp_path, machine="another", host="pod-7", pid=12)
  beats = subprocess.Popen(
    [
      sys.executable,
      "-c",
      "import os, sys, time\n"
      "while True: os.utime(sys.argv[1]); time.sleep(0.1)",
      str(tmp_path / "run.lock"),
    ]
  )
  try:
    with pytest.raises(UserError, match="process 12 on host pod-7"):
      WorkdirLock(tmp_path)
  finally:
    beats.kill()
    beats.wait()


def test_a_job_elsewhere_without_a_sign_of_life_is_replaced(
  quick, tmp_path, caplog
):
  write(tmp_path, machine="another", host="pod-7", pid=12)
  start = time.monotonic()
  lock = WorkdirLock(tmp_path)
  assert time.monotonic() - start > 1
  assert "waiting to see whether that job still lives" in caplog.text
  lock.release()


def test_a_holder_renews_its_lock(quick, tmp_path):
  lock = WorkdirLock(tmp_path)
  os.utime(tmp_path / "run.lock", (0, 0))
  deadline = time.monotonic() + PATIENCE
  while os.stat(tmp_path / "run.lock").st_mtime == 0:
    assert time.monotonic() < deadline
    time.sleep(0.05)
  lock.check()
  lock.release()


def test_a_job_that_lost_its_workdir_ends(quick, tmp_path):
  lock = WorkdirLock(tmp_path)
  holder = content(tmp_path) | {"host": "pod-8", "pid": 3, "token": "other"}
  (tmp_path / "run.lock").write_text(json.dumps(holder))
  deadline = time.monotonic() + PATIENCE
  with pytest.raises(UserError, match="taken over by process 3 on host pod-8"):
    while time.monotonic() < deadline:
      lock.check()
      time.sleep(0.05)
  lock.release()
  assert content(tmp_path) == holder


def test_a_torn_lock_holds_nothing(tmp_path):
  (tmp_path / "run.lock").write_text('{"host": "x", "pi')
  WorkdirLock(tmp_path).release()


def test_a_process_that_was_stopped_asks_before_it_goes_on(
  monkeypatch, tmp_path
):
  lock = WorkdirLock(tmp_path)
  holder = content(tmp_path) | {"host": "pod-8", "pid": 3, "token": "other"}
  (tmp_path / "run.lock").write_text(json.dumps(holder))
  lock.check()  # It has looked a moment ago.
  monkeypatch.setattr(workdir_lock, "DEAD_SECONDS", 0)
  with pytest.raises(UserError, match="taken over by process 3 on host pod-8"):
    lock.check()
  lock.release()
  assert content(tmp_path) == holder


def test_a_lock_that_someone_removes_is_written_again(quick, tmp_path):
  lock = WorkdirLock(tmp_path)
  (tmp_path / "run.lock").unlink()
  deadline = time.monotonic() + PATIENCE
  while not (tmp_path / "run.lock").exists():
    assert time.monotonic() < deadline
    time.sleep(0.05)
  lock.check()
  lock.release()


def test_a_lock_that_another_may_have_had_and_removed_is_lost(
  monkeypatch, tmp_path
):
  lock = WorkdirLock(tmp_path)
  (tmp_path / "run.lock").unlink()
  monkeypatch.setattr(workdir_lock, "DEAD_SECONDS", 0)
  with pytest.raises(UserError, match="taken over by a job that has ended"):
    lock.check()
  lock.release()
  assert list(tmp_path.iterdir()) == []
