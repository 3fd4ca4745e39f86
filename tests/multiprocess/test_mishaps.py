"""Two processes of one run: stopped, killed, damaged and started unlike."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
from PIL import Image

from launch import processes as launched
from tests.faults import runs

pytestmark = pytest.mark.slow
LONG = {**runs.SELDOM, "total_steps": 5000}
# Cuts the connections of process 0 that serve collective operations, and leaves
# those to the coordinator, once a line of its standard input says so.
CUT = """
import os, socket, sys, threading
from vit_jax import command_line, train
from vit_jax.processes import liveness
liveness.SILENT_SECONDS = 8
port = int(os.environ["JAX_COORDINATOR_ADDRESS"].split(":")[-1])
def cut():
  sys.stdin.readline()
  for name in os.listdir("/proc/self/fd"):
    try:
      connection = socket.socket(fileno=os.dup(int(name)))
      ports = connection.getsockname()[1], connection.getpeername()[1]
    except (OSError, IndexError):
      continue
    if port not in ports:
      connection.shutdown(socket.SHUT_RDWR)
if os.environ["JAX_PROCESS_ID"] == "0":
  threading.Thread(target=cut, daemon=True).start()
train.define_flags()
command_line.run(train.main, config_flag="config")
"""
# Process 1 dies when it begins to save step 8.
DYING = """
import os, signal
from vit_jax import command_line, train
from vit_jax.checkpoint.store import CheckpointStore
from vit_jax.processes import liveness
liveness.SILENT_SECONDS = 8
save = CheckpointStore.save
def dying(self, step, *args):
  if step == 8:
    os.kill(os.getpid(), signal.SIGKILL)
  return save(self, step, *args)
if os.environ["JAX_PROCESS_ID"] == "1":
  CheckpointStore.save = dying
train.define_flags()
command_line.run(train.main, config_flag="config")
"""
# Waits three seconds, as if NFS looked again after two; the newest checkpoint
# stays out of sight of process 1 for its first {looks} looks.
STALE = """
import itertools, os
from vit_jax import command_line, train
from vit_jax.checkpoint import verification
from vit_jax.processes import same_view
same_view.SECONDS = 3
steps_in, looks = verification.steps_in, itertools.count()
if os.environ["JAX_PROCESS_ID"] == "1":
  verification.steps_in = lambda directory: (
    steps_in(directory)[: -1 if next(looks) < {looks} else None]
  )
train.define_flags()
command_line.run(train.main, config_flag="config")
"""


def start_with(driver, repo, workdirs, devices=2, **options):
  """Two processes of a run that begin with other lines than the command."""
  return [
    subprocess.Popen(
      [sys.executable, "-c", driver, *runs.command(workdir, **options)[3:]],
      cwd=repo,
      env={**os.environ, **environment},
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
      text=True,
    )
    for workdir, environment in zip(
      workdirs, launched.environments(2, devices), strict=True
    )
  ]


def folder(path):
  """A dataset of two tiny images."""
  for split in ("train", "test"):
    for name in ("a", "b"):
      directory = path / "images" / split / name
      directory.mkdir(parents=True)
      Image.new("RGB", (32, 32)).save(directory / "0.png")
  return path / "images"


def kill(processes):
  for process in processes:
    process.kill()
    process.communicate()


@pytest.mark.parametrize(
  "sent_to", [(0, 1), pytest.param((1,), marks=pytest.mark.exhaustive)]
)
def test_all_save_the_same_step_on_sigterm_and_none_is_lost(
  repo, tmp_path, sent_to
):
  processes = runs.start_together(repo, tmp_path, 2, **LONG)
  runs.wait_for_step(processes[0], tmp_path, 5)
  start = time.monotonic()
  for index in sent_to:
    processes[index].send_signal(signal.SIGTERM)
  (out, _), _ = [runs.end(process, 42, timeout=120) for process in processes]
  seconds = time.monotonic() - start
  print(f"left within {seconds:.1f} s")
  assert seconds < 30
  stopped = int(re.search(r"preempted at step (\d+)", out).group(1))
  assert runs.saved_steps(tmp_path) == [stopped]
  assert runs.lines(tmp_path)[-1]["step"] == stopped
  processes = runs.start_together(repo, tmp_path, 2, **LONG)
  runs.wait_for_step(processes[0], tmp_path, stopped + 3)
  kill(processes)
  steps = [step for step, name in runs.values(tmp_path) if "loss" in name]
  assert steps == list(range(1, len(steps) + 1))


@pytest.mark.parametrize(
  "dying", [0, pytest.param(1, marks=pytest.mark.exhaustive)]
)
def test_when_one_dies_the_other_ends_within_a_minute_and_names_it(
  repo, tmp_path, dying
):
  processes = runs.start_together(repo, tmp_path, 2, **LONG)
  runs.wait_for_step(processes[0], tmp_path, 5)
  processes[dying].kill()
  start = time.monotonic()
  survivor = processes[1 - dying]
  _, said = survivor.communicate(timeout=120)
  seconds = time.monotonic() - start
  print(f"ended after {seconds:.1f} s with {survivor.returncode}")
  assert seconds < 60
  assert survivor.returncode in (134, -signal.SIGABRT)
  if dying == 1:
    assert "error: Process 1 on host" in said
    assert "no sign of life" in said
    assert "Process 0 cannot continue without it" in said
    assert not (tmp_path / "run.lock").exists()
  else:
    assert "coordinated by process 0 on host" in said
    assert "leader task" in said  # jax's own words for process 0.
  kill(processes)
  processes = runs.start_together(repo, tmp_path, 2)
  for process in processes:
    runs.end(process)
  assert runs.saved_steps(tmp_path)[-1] == runs.STEPS


def test_one_that_dies_in_a_save_is_lost_and_the_save_not_blamed(
  repo, tmp_path
):
  processes = start_with(DYING, repo, 2 * [tmp_path])
  _, said = processes[0].communicate(timeout=200)
  kill(processes)
  assert processes[0].returncode == 134, said
  assert "error: Process 1 on host" in said
  assert "no sign of life" in said
  assert runs.saved_steps(tmp_path)[-1] == 4


def test_a_network_that_fails_ends_all_with_a_code_for_another_start(
  repo, tmp_path
):
  # Of several devices of process 1 one may fail and another wait for it, over
  # a connection between the two that stays; only the watchdog ends that.
  processes = start_with(CUT, repo, 2 * [tmp_path], devices=1, **LONG)
  runs.wait_for_step(processes[0], tmp_path, 5)
  said = [p.communicate("now\n", timeout=120)[1] for p in processes]
  assert [p.returncode for p in processes] == [134, 134], said
  for text in said:
    assert "the network between them has failed" in text
    assert "Traceback" not in text
  assert not (tmp_path / "run.lock").exists()


def test_an_error_on_one_host_ends_all_with_its_words(repo, tmp_path):
  data = [tmp_path / "here", tmp_path / "nowhere"]
  shutil.copytree(folder(tmp_path), data[0])
  processes = runs.start_together(
    repo,
    tmp_path / "run",
    2,
    each=[{"data_dir": path} for path in data],
    **{"train.dataset": "folder"},
  )
  (_, first), (_, second) = [p.communicate(timeout=200) for p in processes]
  assert [p.returncode for p in processes] == [1, 1]
  assert "error: Process 1 on host" in first
  for said in (first, second):
    assert str(data[1]) in said


@pytest.fixture
def hosts(tmp_path):
  """Directories of two hosts, each with a dataset of tiny images."""
  return [folder(tmp_path / f"host{index}") for index in range(2)]


def end_all(processes, *words):
  """Waits for processes that all end with an error of these words."""
  for process in processes:
    _, said = runs.end(process, code=1, timeout=200)
    for word in words:
      assert word in said


def test_a_host_with_other_data_of_an_evaluator_is_named(repo, tmp_path, hosts):
  """Of as many files, so that nothing else would show it."""
  (hosts[1] / "test" / "a" / "0.png").rename(hosts[1] / "test" / "b" / "1.png")
  processes = runs.start_together(
    repo,
    tmp_path / "run",
    2,
    each=[{"data_dir": path} for path in hosts],
    **{"evals.test.dataset": "folder"},
  )
  end_all(processes, "Process 1 on host", "has other data of config.evals.test")


def test_hosts_with_another_checkpoint_to_start_from_are_named(repo, tmp_path):
  """A relative path is another run on each."""
  workdirs = [tmp_path / name / "init" for name in ("a", "b")]
  for seed, workdir in enumerate(workdirs):
    options = {"total_steps": 2, "seed": seed}
    runs.end(runs.start(repo, workdir, **options))
  config = f"{repo}/configs/quickstart.py:smoke"
  command = runs.command_of(config, tmp_path / "run", init_from="init")
  processes = [
    runs.start_command(
      workdir.parent, command, {"PYTHONPATH": str(repo), **environment}
    )
    for workdir, environment in zip(
      workdirs, launched.environments(2, 2), strict=True
    )
  ]
  words = "has other content of config.init_from = 'init'"
  end_all(processes, "Process 1 on host", words)


def test_an_evaluation_ends_on_all_hosts_with_the_words_of_one(
  repo, tmp_path, hosts
):
  workdir = tmp_path / "run"
  runs.end(runs.start(repo, workdir, total_steps=2))
  shutil.rmtree(hosts[1])
  processes = [
    runs.start_command(
      repo,
      [
        *(sys.executable, "-m", "vit_jax.evaluate"),
        *("--config=configs/quickstart.py:smoke", f"--checkpoint={workdir}"),
        *(f"--config.data_dir={host}", "--config.evals.test.dataset=folder"),
      ],
      environment,
    )
    for host, environment in zip(
      hosts, launched.environments(2, 2), strict=True
    )
  ]
  end_all(processes, str(hosts[1]))


@pytest.mark.parametrize(
  "sent_to",
  [
    (1,),
    *(pytest.param(x, marks=pytest.mark.exhaustive) for x in ((0,), (0, 1))),
  ],
)
def test_sigterm_to_any_ends_an_evaluation_of_all(repo, tmp_path, sent_to):
  runs.end(runs.start(repo, tmp_path / "run", total_steps=2))
  command = [
    *(sys.executable, "-m", "vit_jax.evaluate"),
    "--config=configs/quickstart.py:smoke",
    f"--checkpoint={tmp_path / 'run'}",
    "--config.evals.test.dataset=generated:classes=10,size=32,examples=10000000",
  ]
  processes = [
    runs.start_command(repo, command, environment)
    for environment in launched.environments(2, 2)
  ]
  for process in processes:
    assert any("coordinated by process 0" in line for line in process.stderr)
  time.sleep(10)
  assert [process.poll() for process in processes] == [None, None]
  start = time.monotonic()
  for index in sent_to:
    processes[index].send_signal(signal.SIGTERM)
  try:
    for process in processes:
      runs.end(process, 143, timeout=60)
  finally:
    kill(processes)
  assert time.monotonic() - start < 20


def test_a_host_with_another_seed_is_named_before_anything_compiles(
  repo, tmp_path
):
  processes = runs.start_together(
    repo, tmp_path, 2, each=[{}, {"seed": 7, "optimizer.b1": 0.8}]
  )
  for process in processes:
    _, said = process.communicate(timeout=200)
    assert process.returncode == 1
    assert "Process 1 on host" in said and "started differently" in said
    assert "seed: 7 there, 0 on process 0" in said
    assert "optimizer.b1: 0.8 there, 0.9 on process 0" in said
  assert not list(tmp_path.iterdir())


def test_a_damaged_checkpoint_is_left_out_by_both(repo, tmp_path):
  options = {"total_steps": 8}
  for process in runs.start_together(repo, tmp_path, 2, **options):
    runs.end(process)
  step = tmp_path / "checkpoints" / "8"
  flipped = max(step.rglob("*"), key=lambda path: path.stat().st_size)
  content = bytearray(flipped.read_bytes())
  content[len(content) // 3] ^= 4
  flipped.write_bytes(content)
  before = runs.values(tmp_path)
  processes = runs.start_together(repo, tmp_path, 2, **options)
  (_, said), _ = [runs.end(process) for process in processes]
  assert "checkpoints/8 is damaged" in said
  names = {path.name for path in (tmp_path / "checkpoints").iterdir()}
  assert names == {"4", "8", "damaged-8"}
  assert runs.values(tmp_path) == before
  assert json.loads((tmp_path / "summary.json").read_text())["step"] == 8


def test_hosts_with_a_workdir_each_are_told_before_anything_compiles(
  repo, tmp_path
):
  workdirs = [tmp_path / "a", tmp_path / "b"]
  processes = start_with(STALE.format(looks=0), repo, workdirs)
  for process, workdir in zip(processes, workdirs, strict=True):
    out, said = process.communicate(timeout=200)
    assert process.returncode == 1
    assert f"error: The workdir {workdir} of process 0 cannot be" in said
    assert "by process 1 on host" in said and "gs://" in said
    assert "Traceback" not in said and "compiling" not in out
    assert not list(workdir.iterdir())  # Not the lock either.


def test_no_lock_is_left_in_a_workdir_that_one_host_cannot_write_to(
  repo, tmp_path
):
  workdirs = [tmp_path / "a", tmp_path / "file" / "run"]
  (tmp_path / "file").write_text("mine")
  processes = start_with(STALE.format(looks=0), repo, workdirs)
  end_all(processes, f"The workdir {workdirs[1]} cannot be written to")
  assert not list(workdirs[0].iterdir())


def test_a_checkpoint_that_one_host_sees_late_is_waited_for(repo, tmp_path):
  options = {"total_steps": 8}
  for process in runs.start_together(repo, tmp_path, 2, **options):
    runs.end(process)
  before = runs.values(tmp_path)
  workdirs = 2 * [tmp_path]
  for process in start_with(STALE.format(looks=10**9), repo, workdirs):
    out, said = process.communicate(timeout=200)
    assert process.returncode == 1
    assert "Process 0 sees the checkpoints [4, 8] in" in said
    assert "process 1 on host" in said and "sees [4]." in said
    assert "Traceback" not in said and "compiling" not in out
  processes = start_with(STALE.format(looks=3), repo, workdirs, **options)
  (_, said), _ = [runs.end(process) for process in processes]
  assert "Waiting until all hosts see the same" in said
  assert runs.saved_steps(tmp_path) == [4, 8]
  assert runs.values(tmp_path) == before
