"""The SLURM job: what is submitted, and what the script does when it runs."""

import dataclasses
import json
import os
import pathlib
import re
import shutil
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
# srun as rough as Slurm's: the step is made a moment after it starts, and on
# SIGTERM it kills its tasks. It runs `commands`, a task each, whose variables
# are those that --export or SLURM_EXPORT_ENV let through.
STEP = """
import signal, subprocess, time
def forced(*unused):
  print("srun: forcing job termination", file=sys.stderr)
  for task in tasks:
    task.kill()
signal.signal(signal.SIGTERM, forced)
exported = os.environ.get("SLURM_EXPORT_ENV", "ALL")
for word in words:
  exported = word.removeprefix("--export=") if "--export=" in word else exported
assert exported in ("ALL", "NONE"), exported
inherited = {
  name: value
  for name, value in os.environ.items()
  if exported == "ALL" or name.startswith("SLURM_")
}
tasks = []
time.sleep(0.5)
for index, command in enumerate(commands):
  task = {
    "SLURM_JOB_ID": "77",
    "SLURM_STEP_NODELIST": "localhost",
    "SLURM_NTASKS": str(len(commands)),
    "SLURM_PROCID": str(index),
    "SLURM_LOCALID": "0",
  }
  tasks.append(subprocess.Popen(command, env=inherited | task))
pids = " ".join(str(task.pid) for task in tasks)
(place / "step.partial").write_text(pids)
(place / "step.partial").rename(place / "step")
codes = [task.wait() for task in tasks]
(place / "step").unlink()
sys.exit(max(code if code >= 0 else 128 - code for code in codes))
"""
# Both look for a step as Slurm 22.05's do: scancel succeeds without one until
# srun has asked for it, and then fails until it is there.
SQUEUE = """
assert words == ["--noheader", "--steps=77.0"], words
if (place / "step").exists():
  print("77.0 python")
"""
SCANCEL = """
import shutil
import signal
assert words == ["--signal=TERM", "77.0"], words
if not (place / "step").exists():
  print("scancel: error: Kill job error on job step id 77: Invalid job id"
    " specified", file=sys.stderr)
  sys.exit(225)
for pid in (place / "step").read_text().split():
  os.kill(int(pid), signal.SIGTERM)
"""
# A task that waits for SIGTERM, saves for a moment and ends with 42.
SAVES_ON_TERM = """
import os, pathlib, signal, sys, time
def leave(*unused):
  time.sleep(0.3)
  os._exit(42)
signal.signal(signal.SIGTERM, leave)
pathlib.Path(sys.argv[1]).touch()
time.sleep(600)
"""


@pytest.fixture
def programs(tmp_path):
  names = ("srun", "scancel", "squeue", "scontrol", "sbatch", "python")
  programs = Programs(tmp_path / "programs", *names)
  programs.behave("squeue", SQUEUE)
  programs.behave("scancel", SCANCEL)
  return programs


def run_step(programs, *commands):
  """Has srun run these commands; None stands for the one it is given."""
  parts = [
    'words[words.index("--label") + 1 :]' if command is None else repr(command)
    for command in commands
  ]
  programs.behave("srun", f"commands = [{', '.join(parts)}]\n{STEP}")


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


@pytest.mark.parametrize(
  ("time", "minutes"),
  [  # As squeue of Slurm 22.05 shows what sbatch took.
    ("2", 2),
    ("007", 7),
    ("90", 90),
    ("0:30", 1),
    ("2:00", 2),
    ("3:30", 4),
    ("0:2:0", 2),
    ("00:03:00", 3),
    ("24:00:00", 24 * 60),
    ("1-0", 24 * 60),
    ("1-00:05", 24 * 60 + 5),
    ("1-0:0:30", 24 * 60 + 1),
    ("0-0:2", 2),
  ],
)
def test_a_time_limit_must_leave_time_before_the_signal_to_save(
  tmp_path, taken, time, minutes
):
  """SLURM sends it up to a minute early."""
  enough = minutes * 60 - 61
  if enough > 0:
    plan_in(tmp_path, taken, time=time, grace_seconds=enough)
  with pytest.raises(UserError, match=f"--time={time} is") as error:
    plan_in(tmp_path, taken, time=time, grace_seconds=max(enough, 0) + 1)
  said = (
    f"a limit of {minutes * 60} seconds.*--grace_seconds={max(enough, 0) + 1}"
  )
  assert re.search(said, str(error.value))


@pytest.mark.parametrize(
  "time", ["0", "0-0", "-1", "INFINITE", "UNLIMITED", "infinite", "unlimited"]
)
def test_without_a_time_limit_there_is_time_to_save(tmp_path, taken, time):
  (command,) = plan_in(tmp_path, taken, time=time).commands
  assert f"--time={time}" in command.words


@pytest.mark.parametrize(
  "time", ["3h", "", "abc", "5 ", "-5", "1:2:3:4", "00:04:00.5"]
)
def test_a_time_that_sbatch_would_not_take_is_explained(tmp_path, taken, time):
  with pytest.raises(UserError, match=f"--time={time} is not a time limit"):
    plan_in(tmp_path, taken, time=time)


@pytest.mark.parametrize(
  ("option", "reason"),
  [
    ("--no-requeue", "queued again"),
    ("--array=0-3", "one job per run"),
    ("-a0-3", "one job per run"),
    ("--ntasks-per-node=8", "one task per node"),
  ],
)
def test_an_option_that_the_script_cannot_work_with_is_refused(
  tmp_path, taken, option, reason
):
  with pytest.raises(
    UserError, match=f"--sbatch={option}: .*{reason}; leave it out"
  ):
    plan_in(tmp_path, taken, sbatch=(option,))


@pytest.mark.parametrize(
  ("option", "flag"),
  [
    ("--time=1:00", "--time"),
    ("-t5", "--time"),
    ("--nodes=8", "--nodes"),
    ("-N 8", "--nodes"),
    ("--cpus-per-task=2", "--cpus_per_node"),
    ("--signal=B:USR1@5", "--grace_seconds"),
  ],
)
def test_an_option_with_a_flag_of_its_own_is_refused(
  tmp_path, taken, option, flag
):
  with pytest.raises(
    UserError, match=f"--sbatch={option}: .* relies on {flag};"
  ):
    plan_in(tmp_path, taken, sbatch=(option,))


@pytest.mark.parametrize(
  "option", ["--time-min=10", "-n4", "--gpus=8", "--gpus-per-node=h100:8"]
)
def test_any_other_option_is_passed_on(tmp_path, taken, option):
  (command,) = plan_in(tmp_path, taken, sbatch=(option,)).commands
  assert option in command.words


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


def test_tasks_have_the_variables_of_the_script_whatever_sbatch_exports(
  tmp_path, taken, programs
):
  """sbatch --export=NONE leaves SLURM_EXPORT_ENV to srun, which obeys it."""
  file = tmp_path / "variables.json"
  code = (
    f"import json, os; json.dump(dict(os.environ), open({str(file)!r}, 'w'))"
  )
  run_step(programs, [sys.executable, "-c", code])
  script = script_of(plan_in(tmp_path, taken))
  assert finish(script, programs, SLURM_EXPORT_ENV="NONE") == 0
  variables = json.loads(file.read_text())
  assert variables["JAX_LOCAL_DEVICE_IDS"] == "0,1,2,3,4,5,6,7"
  assert variables["PYTHONPATH"].split(":")[0] == str(experiment.REPO)


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


@pytest.mark.parametrize("when", ["at once", "running"])
@pytest.mark.parametrize(
  ("number", "queued"), [(signal.SIGUSR1, True), (signal.SIGTERM, False)]
)
def test_before_the_time_limit_it_saves_and_is_queued_again(
  tmp_path, taken, programs, number, queued, when
):
  """After scancel or SLURM's own preemption it saves, and leaves it at that."""
  running = [programs.place / f"running-{index}" for index in range(2)]
  tasks = [[sys.executable, "-c", SAVES_ON_TERM, str(x)] for x in running]
  run_step(programs, *tasks)
  process = start(script_of(plan_in(tmp_path, taken)), programs)
  if when == "running":
    wait_for = running
  else:
    wait_for = [programs.place / "calls.jsonl"]  # srun was started.
  while not all(path.exists() for path in wait_for):
    time.sleep(0.02)
  process.send_signal(number)
  out, _ = process.communicate(timeout=300)
  # A task that is told before it listens dies of the signal, with 143.
  codes = (42,) if when == "running" else (42, 143)
  assert process.returncode in codes, out
  assert f"ended with exit code {process.returncode}" in out
  assert programs.words("scontrol") == ([["requeue", "77"]] if queued else [])


def test_a_signal_after_the_step_has_ended_does_not_hold_the_job_up(
  tmp_path, taken, programs
):
  # srun lingers for a moment when its tasks are gone.
  programs.behave("srun", "import time; time.sleep(1.5); sys.exit(0)")
  process = start(script_of(plan_in(tmp_path, taken)), programs)
  while not programs.calls("srun"):
    time.sleep(0.02)
  process.send_signal(signal.SIGUSR1)
  process.communicate(timeout=60)
  assert process.returncode == 0
  assert programs.words("scancel") == []


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


@pytest.mark.exhaustive
def test_a_run_goes_on_after_its_time_limit(tmp_path, programs):
  """The script, its supervisors and train itself, on the CPU."""
  options = runs.SELDOM | {"total_steps": 150}
  words = [f"--config.{key}={value}" for key, value in options.items()]
  taken = experiment.Experiment(
    "configs/quickstart.py", ":smoke", tuple(words), "runs/first"
  )
  run_step(programs, None, None)
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


@pytest.fixture
def real_slurm(shared, tmp_path_factory):
  """Environment variables of a real Slurm of two nodes; skips without it."""
  if os.geteuid() or not shutil.which("slurmctld"):
    pytest.skip("needs root and the packages slurmctld, slurmd and munge")
  tool, place = shared / "tools" / "slurm_cluster", tmp_path_factory.mktemp("s")
  outcome = subprocess.run(
    [tool, "start", place], capture_output=True, text=True, timeout=300
  )
  if outcome.returncode:
    pytest.skip(f"Slurm does not start here: {outcome.stderr}")
  name, _, value = outcome.stdout.strip().removeprefix("export ").partition("=")
  yield {**os.environ, name: value, "JAX_NUM_CPU_DEVICES": "1"}
  subprocess.run([tool, "stop", place], check=True, timeout=60)


@pytest.mark.slow
def test_on_a_real_slurm_it_saves_and_is_queued_again(tmp_path, real_slurm):
  def slurm_says(*words):
    return subprocess.run(
      words, env=real_slurm, capture_output=True, text=True, check=True
    ).stdout.strip()

  options = runs.SELDOM | {"total_steps": 100_000}
  taken = experiment.Experiment(
    "configs/quickstart.py",
    ":smoke",
    tuple(f"--config.{key}={value}" for key, value in options.items()),
    "runs/first",
  )
  job = dataclasses.replace(
    JOB, nodes=2, gpus_per_node=1, cpus_per_node=1, time="10", sbatch=()
  )
  plan = slurm.make_plan(taken, job, python=sys.executable, place=str(tmp_path))
  for path, content in plan.files.items():
    pathlib.Path(path).parent.mkdir(parents=True)
    pathlib.Path(path).write_text(content)
  (command,) = plan.commands
  job_id = slurm_says(*command.words).split()[-1]
  workdir = tmp_path / "runs" / "first"
  log = workdir / "launch" / f"{job_id}.log"
  wait_until(lambda: "train/loss" in read(workdir / "metrics.jsonl"), log)
  # As SLURM does it before the time limit: to the batch script alone.
  slurm_says("scancel", "--batch", "--signal=USR1", job_id)
  wait_until(lambda: "ended with exit code 42" in read(log), log)
  state = ("squeue", "--noheader", "--format=%T", f"--jobs={job_id}")
  wait_until(lambda: slurm_says(*state) in ("PENDING", "CONFIGURING"), log)
  slurm_says("scancel", job_id)
  last_step = max(step for step, _ in runs.values(workdir))
  assert runs.saved_steps(workdir)[-1] == last_step


def read(path):
  return path.read_text() if path.exists() else ""


def wait_until(true, log, seconds=240):
  """Waits until `true()`; fails with the job's log if that takes too long."""
  end = time.monotonic() + seconds
  while not true():
    assert time.monotonic() < end, read(log)
    time.sleep(0.2)
