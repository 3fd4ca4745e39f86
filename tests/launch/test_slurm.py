"""The SLURM job: what is submitted, and what the script does when it runs."""

import dataclasses
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launch import experiment, slurm
from tests.faults import runs
from tests.launch.conftest import ODD
from tests.launch.programs import Programs
from vit_jax.errors import UserError

JOB = slurm.Job(
  name="first",
  nodes=4,
  gpus_per_node=8,
  cpus_per_node=96,
  time="24:00:00",
  grace_seconds=180,
  max_restarts=3,
  sbatch=("--partition=gpu", "--account=a b"),
)
# A step that waits for SIGTERM, saves for a moment and ends with 42.
SAVES_ON_TERM = """
import signal, time
def leave(*unused):
  time.sleep(0.3)
  os._exit(42)
signal.signal(signal.SIGTERM, leave)
(place / "running").touch()
time.sleep(600)
"""


@pytest.fixture
def programs(tmp_path):
  return Programs(tmp_path / "programs", "srun", "scontrol", "sbatch", "python")


def plan_in(tmp_path, taken, **changes):
  job = dataclasses.replace(JOB, **changes)
  return slurm.make_plan(taken, job, python="python", place=str(tmp_path))


def script_of(plan):
  (script,) = plan.files.values()
  return script


def start(script, programs, **environment):
  return subprocess.Popen(
    ["bash", "-c", script],
    env={**programs.environment, "SLURM_JOB_ID": "77", **environment},
    stdout=subprocess.PIPE,
    text=True,
  )


def finish(script, programs, **environment):
  process = start(script, programs, **environment)
  process.communicate(timeout=300)
  return process.returncode


def split(words):
  """srun's options, the supervisor's words and those of the train command."""
  python = words.index("python")
  dashes = words.index("--")
  return words[:python], words[python:dashes], words[dashes + 1 :]


def test_what_is_submitted(tmp_path, taken):
  plan = plan_in(tmp_path, taken)
  (command,) = plan.commands
  program, *options, script = command.words
  logs = tmp_path / "runs" / "first" / "launch"
  assert program == "sbatch"
  assert [script] == [str(logs / "slurm.sh")] == list(plan.files)
  assert options == [
    "--job-name=first",
    "--nodes=4",
    "--ntasks-per-node=1",
    "--gpus-per-node=8",
    "--cpus-per-task=96",
    "--time=24:00:00",
    "--requeue",
    "--signal=B:USR1@180",
    "--open-mode=append",
    f"--output={logs}/%j.log",
    "--partition=gpu",
    "--account=a b",
  ]


def test_logs_of_a_run_in_a_bucket_stay_on_the_shared_disk(tmp_path, taken):
  taken = dataclasses.replace(taken, workdir="gs://bucket/run")
  (path,) = plan_in(tmp_path, taken).files
  assert path == str(tmp_path / "runs" / "launch" / "first" / "slurm.sh")


def test_a_log_directory_is_no_pattern_of_slurm(tmp_path, taken):
  taken = dataclasses.replace(taken, workdir="100%j")
  (command,) = plan_in(tmp_path, taken).commands
  assert f"--output={tmp_path}/100%%j/launch/%j.log" in command.words
  taken = dataclasses.replace(taken, workdir="back\\slash")
  with pytest.raises(UserError, match="backslash"):
    plan_in(tmp_path, taken)


def test_the_script_passes_shellcheck(tmp_path, taken, shellcheck):
  shellcheck(script_of(plan_in(tmp_path, taken)))


def test_one_task_a_node_has_all_of_its_gpus(tmp_path, taken, programs):
  script = script_of(plan_in(tmp_path, taken))
  assert finish(script, programs, SLURM_CPUS_PER_TASK="96") == 0
  (call,) = programs.calls("srun")
  options, supervisor, command = split(call["words"])
  assert {"--nodes=4", "--ntasks=4", "--ntasks-per-node=1"} <= set(options)
  # Whoever ends first leaves the others time to save.
  assert {"--kill-on-bad-exit=0", "--wait=0"} <= set(options)
  assert call["environment"]["JAX_LOCAL_DEVICE_IDS"] == "0,1,2,3,4,5,6,7"
  assert supervisor == ["python", "-m", "launch.supervise", "--max_restarts=3"]
  config = str(experiment.REPO / "configs" / "quickstart.py")
  assert command == [
    *("python", "-m", "vit_jax.train"),
    f"--config={config}:smoke",
    "--config.seed=3",
    "--workdir=runs/first",
  ]


def test_jax_takes_all_gpus_from_that_variable(monkeypatch):
  """Without it, jax gives a task of SLURM one device."""
  from jax._src.clusters import ClusterEnv

  task = {
    "SLURM_JOB_ID": "77",
    "SLURM_STEP_NODELIST": "node[003-006]",
    "SLURM_NTASKS": "4",
    "SLURM_PROCID": "2",
    "SLURM_LOCALID": "0",
  }
  for name, value in task.items():
    monkeypatch.setenv(name, value)
  detect = ClusterEnv.auto_detect_unset_distributed_params
  address, *rest = detect(None, None, None, None, None, 300)
  assert address.startswith("node003:") and rest == [4, 2, [0]]
  assert detect(None, None, None, [0, 1], None, 300)[3] == [0, 1]


@settings(
  max_examples=25,
  suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
  words=st.lists(
    st.text(
      st.characters(exclude_characters="\0", exclude_categories=["Cs"]),
      max_size=12,
    ).map("--config.key={}".format),
    max_size=4,
  ),
  workdir=st.text(
    st.characters(exclude_characters="\0\\/", exclude_categories=["Cs"]),
    min_size=1,
    max_size=12,
  ),
)
def test_any_words_arrive_as_they_are(tmp_path_factory, taken, words, workdir):
  place = tmp_path_factory.mktemp("it's $(odd) place")
  programs = Programs(place / "programs", "srun")
  taken = dataclasses.replace(taken, overrides=(*words, *ODD), workdir=workdir)
  assert finish(script_of(plan_in(place, taken)), programs) == 0
  ((_, _, command),) = map(split, programs.words("srun"))
  assert command[4:] == [*words, *ODD, f"--workdir={workdir}"]


def test_a_word_that_no_command_takes_is_refused(tmp_path, taken):
  taken = dataclasses.replace(taken, workdir="a\0b")
  with pytest.raises(UserError, match="NUL"):
    plan_in(tmp_path, taken)


@pytest.mark.parametrize("code", [42, 143])
def test_a_preempted_run_is_queued_again(tmp_path, taken, programs, code):
  programs.behave("srun", f"sys.exit({code})")
  assert finish(script_of(plan_in(tmp_path, taken)), programs) == code
  assert programs.words("scontrol") == [["requeue", "77"]]


@pytest.mark.parametrize("code", [0, 1, 130, 134])
def test_any_other_end_is_the_end(tmp_path, taken, programs, code):
  programs.behave("srun", f"sys.exit({code})")
  assert finish(script_of(plan_in(tmp_path, taken)), programs) == code
  assert programs.words("scontrol") == []


@pytest.mark.parametrize(
  ("number", "queued"), [(signal.SIGUSR1, True), (signal.SIGTERM, False)]
)
def test_before_the_time_limit_it_saves_and_is_queued_again(
  tmp_path, taken, programs, number, queued
):
  """After scancel or SLURM's own preemption it saves, and leaves it at that."""
  programs.behave("srun", SAVES_ON_TERM)
  process = start(script_of(plan_in(tmp_path, taken)), programs)
  while not (programs.place / "running").exists():
    time.sleep(0.02)
  process.send_signal(number)
  out, _ = process.communicate(timeout=300)
  assert process.returncode == 42
  assert "ended with exit code 42" in out
  assert programs.words("scontrol") == ([["requeue", "77"]] if queued else [])


def test_relative_paths_start_where_it_was_submitted(tmp_path, taken, programs):
  programs.behave("srun", "(place / 'cwd').write_text(os.getcwd())")
  assert finish(script_of(plan_in(tmp_path, taken)), programs) == 0
  assert (programs.place / "cwd").read_text() == os.path.realpath(tmp_path)


def test_the_plan_is_carried_out(tmp_path, taken, programs, monkeypatch):
  monkeypatch.setenv("PATH", programs.environment["PATH"])
  plan = plan_in(tmp_path, taken)
  assert plan.carry_out() == 0
  (command,) = plan.commands
  assert programs.words("sbatch") == [list(command.words[1:])]
  assert pathlib.Path(command.words[-1]).read_text() == script_of(plan)
  programs.behave("sbatch", "sys.exit(3)")
  assert plan.carry_out() == 3


def test_a_program_that_is_not_installed_is_named(tmp_path, taken, monkeypatch):
  monkeypatch.setenv("PATH", str(tmp_path))
  with pytest.raises(UserError, match="sbatch was not found"):
    plan_in(tmp_path, taken).carry_out()


# Plays a cluster of two nodes: a task on each, with SLURM's variables.
CLUSTER = """
import signal, subprocess
words = words[words.index("--label") + 1 :]
tasks = []
for index in range(2):
  task = {
    "SLURM_JOB_ID": "77",
    "SLURM_STEP_NODELIST": "localhost",
    "SLURM_NTASKS": "2",
    "SLURM_PROCID": str(index),
    "SLURM_LOCALID": "0",
  }
  tasks.append(subprocess.Popen(words, env={**os.environ, **task}))
signal.signal(signal.SIGTERM, lambda n, f: [t.send_signal(n) for t in tasks])
sys.exit(max(task.wait() for task in tasks))
"""


@pytest.mark.exhaustive
def test_a_run_goes_on_after_its_time_limit(tmp_path, programs):
  """The script, its supervisors and train itself, on the CPU."""
  options = runs.SELDOM | {"total_steps": 150}
  words = [f"--config.{key}={value}" for key, value in options.items()]
  taken = experiment.Experiment(
    "configs/quickstart.py", ":smoke", tuple(words), "runs/first"
  )
  programs.behave("srun", CLUSTER)
  job = dataclasses.replace(JOB, nodes=2, gpus_per_node=1)
  plan = slurm.make_plan(taken, job, python=sys.executable, place=str(tmp_path))
  process = start(script_of(plan), programs, JAX_NUM_CPU_DEVICES="1")
  runs.wait_for_step(process, tmp_path / "runs" / "first", 5)
  process.send_signal(signal.SIGUSR1)
  out, _ = process.communicate(timeout=300)
  assert process.returncode == 42, out
  assert programs.words("scontrol") == [["requeue", "77"]]
  assert finish(script_of(plan), programs, JAX_NUM_CPU_DEVICES="1") == 0
  values = runs.values(tmp_path / "runs" / "first")
  steps = [step for step, name in values if name == "train/loss"]
  assert steps == list(range(1, 151))
