"""Saves on a disk that is full: a small one in memory, really filled."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from tests.faults import runs
from vit_jax.checkpoint.store import CheckpointStore

MOUNTED = """
import os, subprocess, sys
subprocess.run(
  ["mount", "-t", "tmpfs", "-o", "size=" + sys.argv[2], "tmpfs", sys.argv[1]],
  check=True,
)
os.execv(sys.argv[3], sys.argv[3:])
"""
# Saves many arrays when a mebibyte is left: writes fail while others go on.
MANY_ARRAYS = """
import gc, os, sys
import jax
from vit_jax.checkpoint.store import CheckpointStore, SaveError
with open(os.path.join(sys.argv[1], "filler"), "wb") as file:
  file.write(bytes(99 << 20))
keys = jax.random.split(jax.random.key(0), 40)
arrays = {str(i): jax.random.normal(k, (1 << 19,)) for i, k in enumerate(keys)}
state = {"params": arrays, "ema_params": None}
store = CheckpointStore(os.path.join(sys.argv[1], "run"))
try:
  store.save(1, state, {})
  store.wait()
except SaveError as error:
  print(error)
gc.collect()
"""
OPTIONS = {
  **runs.SELDOM,
  "checkpoint.every_steps": 50,
  "checkpoint.keep_last": 1000,
}


class Disk:
  """A directory that is a small disk to one process and those who ask here.

  Args:
    mount: where that process finds it.
    errors: a file for what the process says on stderr.
    size: of the disk.
  """

  def __init__(self, mount, errors, size="100m"):
    self.mount = mount
    self._errors = errors
    self._descriptor = None
    self.prefix = [
      *("unshare", "--user", "--map-root-user", "--mount"),
      *(sys.executable, "-c", MOUNTED, str(mount), size),
    ]

  def start(self, repo, **options):
    """Trains in the directory `run` of the disk."""
    with open(self._errors, "w") as errors:
      process = subprocess.Popen(
        self.prefix + runs.command(self.mount / "run", **(OPTIONS | options)),
        cwd=repo,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
      )
    seen = pathlib.Path(f"/proc/{process.pid}/root{self.mount}")
    runs.wait_for(process, (seen / "run" / "run.lock").exists)
    # An open directory keeps the disk when the process has gone.
    self._descriptor = os.open(seen, os.O_RDONLY)
    return process

  @property
  def path(self):
    return pathlib.Path(f"/proc/self/fd/{self._descriptor}")

  @property
  def workdir(self):
    return self.path / "run"

  def holds(self, step):
    return (self.workdir / "checkpoints" / str(step)).exists

  def alarms(self):
    text = self._errors.read_text()
    assert "/vit_jax/" not in text, text  # No stack of ours.
    return [x for x in text.splitlines() if "ALARM: The checkpoint of" in x]

  def said(self):
    return self._errors.read_text()

  def fill(self):
    with contextlib.suppress(OSError), self._filler.open("wb") as file:
      while True:
        file.write(bytes(1 << 12))
        file.flush()

  def free(self):
    self._filler.unlink()

  @property
  def _filler(self):
    return self.path / "filler"

  def newest_is_sound(self, copy):
    """The newest step, once compared with its manifest; nothing lies about."""
    shutil.copytree(self.workdir, copy)
    store = CheckpointStore(copy)
    newest = store.latest_step()
    store.close()
    assert newest == max(runs.saved_steps(self.workdir))  # All are numbers.
    return newest

  def close(self):
    if self._descriptor is not None:
      os.close(self._descriptor)


def mounted(tmp_path, **options):
  """A disk, unmounted as yet; skips where that cannot be."""
  (tmp_path / "disk").mkdir()
  made = Disk(tmp_path / "disk", tmp_path / "errors", **options)
  tried = shutil.which("unshare") and subprocess.run(
    [*made.prefix, sys.executable, "-c", ""], capture_output=True
  )
  if not tried or tried.returncode:
    pytest.skip("a file system cannot be mounted here")
  return made


@pytest.fixture
def disk(tmp_path):
  made = mounted(tmp_path)
  yield made
  made.close()


def test_a_save_of_many_arrays_that_fails_says_one_sentence(repo, disk):
  saved = subprocess.run(
    [*disk.prefix, sys.executable, "-c", MANY_ARRAYS, str(disk.mount)],
    cwd=repo,
    capture_output=True,
    text=True,
    timeout=200,
  )
  assert saved.returncode == 0, saved.stderr
  assert saved.stdout == "step 1: No space left on device\n"
  assert saved.stderr == ""


@pytest.mark.slow
def test_a_full_disk_stops_the_run_and_the_step_before_stays_good(
  repo, disk, tmp_path
):
  process = disk.start(repo, total_steps=5000)
  runs.wait_for(process, disk.holds(100))
  disk.fill()
  process.communicate(timeout=200)
  assert process.returncode == 1, disk.said()
  assert not disk.alarms()
  told = disk.said().splitlines()
  (alarm,) = [x for x in told if "The checkpoint of step" in x]
  assert alarm.startswith("error: The checkpoint of step")
  assert "No space left on device" in alarm
  disk.free()
  newest = disk.newest_is_sound(tmp_path / "copy")
  assert newest >= 100
  assert f"that of step {newest} is untouched" in alarm
  assert not (disk.workdir / "run.lock").exists()


@pytest.mark.slow
def test_a_run_that_is_to_go_on_outlives_a_full_disk(repo, disk, tmp_path):
  options = {"checkpoint.on_save_error": "continue", "total_steps": 1000}
  process = disk.start(repo, **options)
  runs.wait_for(process, disk.holds(50))
  disk.fill()
  runs.wait_for(process, lambda: len(disk.alarms()) >= 2)
  disk.free()
  process.communicate(timeout=200)
  assert process.returncode == 0, disk.said()
  alarms = disk.alarms()
  steps = [int(a.split("of step ")[1].split()[0]) for a in alarms]
  assert len(steps) >= 2 and len(set(steps)) == len(steps)
  assert disk.newest_is_sound(tmp_path / "copy") == 1000
  assert not set(steps) & set(runs.saved_steps(disk.workdir))
  logged = {s for s, name in runs.values(disk.workdir) if name == "train/loss"}
  assert logged == set(range(1, 1001))


@pytest.mark.slow
def test_a_cache_of_features_without_room_ends_with_a_sentence(repo, tmp_path):
  cache = tmp_path / "disk" / "cache"
  command = runs.command_of(
    "configs/lit.py:smoke",
    tmp_path / "run",
    **{"objective.cache_frozen": cache},
  )
  done = subprocess.run(
    mounted(tmp_path, size="12k").prefix + command,
    cwd=repo,
    capture_output=True,
    text=True,
  )
  says = (
    f"config.objective.cache_frozen = '{cache}' cannot be written (No space"
  )
  assert says in done.stderr
  assert done.returncode == 1
  assert "Traceback" not in done.stderr
