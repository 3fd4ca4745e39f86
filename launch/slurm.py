"""Submits an experiment to a SLURM cluster with GPUs.

  python -m launch.slurm --name=b16 --nodes=4 --gpus_per_node=8
    --cpus_per_node=96 --time=24:00:00 --sbatch=--partition=gpu
    --config=configs/pretrain.py:model=B/16 --workdir=/scratch/me/b16

Run it on a login node, from a clone and an environment that the compute nodes
can also access. One task runs on each node and drives all of its GPUs. Before
the time limit, and when SLURM preempts it, the run saves, and the job is queued
again and resumes. See docs/slurm.md.
"""

import dataclasses
import os
import re
import sys
from collections.abc import Mapping, Sequence

from absl import flags

from launch import compile_check, exit_codes, experiment, rendering
from launch.plan import Command, Plan, show_or_carry_out
from vit_jax import command_line
from vit_jax.errors import UserError

# SLURM sends the signal before a time limit up to a minute too early.
_EARLY_SECONDS = 60
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
# Options of sbatch, short and long, for which there are flags.
_FLAG_OF = {
  ("-J", "--job-name"): "--name",
  ("-N", "--nodes"): "--nodes",
  ("-c", "--cpus-per-task"): "--cpus_per_node",
  ("-t", "--time"): "--time",
  ("", "--signal"): "--grace_seconds",
}
# Those that nothing can replace: every node has one task, and the job is queued
# again.
_UNSUITABLE = {
  ("", "--no-requeue"): "the job being queued again",
  ("-a", "--array"): "one job per run",
  ("", "--ntasks-per-node"): "one task per node",
}


def define_flags() -> None:
  experiment.define_flags()
  experiment.define_name()
  compile_check.define_flags()
  flags.DEFINE_integer("nodes", 1, "Number of nodes.", lower_bound=1)
  flags.DEFINE_integer("gpus_per_node", 8, "GPUs per node.", lower_bound=1)
  flags.DEFINE_string(
    "gpu", None, "Type of the GPUs for --check=compile, such as h100."
  )
  flags.DEFINE_integer(
    "cpus_per_node", None, "CPU cores per node, for the input.", lower_bound=1
  )
  flags.DEFINE_string(
    "time",
    None,
    "Time limit of each start, in sbatch's format; the run may be longer.",
  )
  flags.DEFINE_integer(
    "grace_seconds",
    180,
    "Time before the limit at which to save; longer than a step and a save.",
    lower_bound=1,
  )
  flags.DEFINE_integer(
    "max_restarts",
    3,
    "Maximum number of restarts without an hour's run.",
    lower_bound=0,
  )
  flags.DEFINE_multi_string(
    "sbatch", [], "Further option for sbatch, such as --sbatch=--account=me."
  )


@dataclasses.dataclass(frozen=True)
class Job:
  """SLURM resources to request; the fields are the flags of the same names."""

  name: str
  nodes: int
  gpus_per_node: int
  cpus_per_node: int
  time: str
  grace_seconds: int
  max_restarts: int
  sbatch: tuple[str, ...] = ()


def main(argv: Sequence[str]) -> int:
  command_line.no_arguments(argv)
  taken = experiment.from_flags(same_environment=True)
  given = flags.FLAGS
  for flag in ("cpus_per_node", "time"):
    if given[flag].value is None:
      raise UserError(f"Give --{flag}: {given[flag].help}")
  job = Job(
    experiment.name(),
    given.nodes,
    given.gpus_per_node,
    given.cpus_per_node,
    given.time,
    given.grace_seconds,
    given.max_restarts,
    tuple(given.sbatch),
  )
  plan = make_plan(taken, job, python=sys.executable, place=os.getcwd())
  if compile_check.is_wanted() != bool(given.gpu):
    raise UserError(
      "--check=compile and --gpu=KIND, such as --gpu=h100, go together; give"
      " both or none."
    )
  if compile_check.is_wanted():
    compile_check.check(
      taken, compile_check.gpus(given.gpu, job.nodes, job.gpus_per_node)
    )
  return show_or_carry_out(plan, dry_run=given.dry_run)


def make_plan(
  taken: experiment.Experiment, job: Job, *, python: str, place: str
) -> Plan:
  """The batch script and the command that submits it.

  Args:
    taken: Experiment to train.
    job: Resources to train it on.
    python: Interpreter of the environment, visible to all nodes.
    place: Absolute directory that relative paths start from, on all nodes.

  Raises:
    UserError: SLURM cannot write to the directory of the logs, no time would be
      left to train, or an option given by --sbatch has its own flag or does not
      suit the script.
  """
  _check_time(job)
  _check_options(job.sbatch)
  if "://" in taken.workdir:
    logs = os.path.join(place, "runs", "launch", job.name)
  else:
    logs = os.path.join(place, taken.workdir, "launch")
  script = os.path.join(logs, "slurm.sh")
  content = rendering.render(
    "slurm.sh.jinja",
    place=place,
    repo=str(experiment.REPO),
    python=python,
    command=taken.command(python, experiment.shared_config(taken)),
    nodes=job.nodes,
    devices=",".join(map(str, range(job.gpus_per_node))),
    max_restarts=job.max_restarts,
    preempted_codes=exit_codes.PREEMPTED_CODES,
  )
  submit = [
    "sbatch",
    f"--job-name={job.name}",
    f"--nodes={job.nodes}",
    # One task a node, as on TPU hosts: one input pipeline with all the cores,
    # one copy of all that a host keeps, and fewer processes that can be lost.
    "--ntasks-per-node=1",
    f"--gpus-per-node={job.gpus_per_node}",
    f"--cpus-per-task={job.cpus_per_node}",
    f"--time={job.time}",
    "--requeue",
    f"--signal=B:USR1@{job.grace_seconds}",
    "--open-mode=append",
    f"--output={_pattern(logs)}/%j.log",
    *job.sbatch,
    script,
  ]
  return Plan({script: content}, [Command(submit)])


def _check_time(job: Job) -> None:
  """Raises UserError if the run had to save as soon as it starts."""
  limit = _seconds(job.time)
  if limit and limit <= job.grace_seconds + _EARLY_SECONDS:
    raise UserError(
      f"--time={job.time} is a limit of {limit} seconds, but SLURM tells the"
      f" run to save --grace_seconds={job.grace_seconds} before it, or up to"
      f" {_EARLY_SECONDS} seconds earlier: the job would be queued again and"
      " again without training. Give a longer --time, as hours are in"
      " HH:MM:SS, or fewer --grace_seconds."
    )


def _check_options(options: Sequence[str]) -> None:
  """Raises UserError if one would win over what the script relies on."""
  for option in options:
    if (flag := _named(option, _FLAG_OF)) is not None:
      raise UserError(
        f"--sbatch={option}: this script relies on {flag}; give that instead."
      )
    if (reason := _named(option, _UNSUITABLE)) is not None:
      raise UserError(
        f"--sbatch={option}: this script relies on {reason}; leave it out."
      )


def _named(option: str, known: Mapping[tuple[str, str], str]) -> str | None:
  """Returns the entry of an option's short or long name; None if none."""
  for (short, long), found in known.items():
    if option.split("=")[0] == long or (short and option.startswith(short)):
      return found
  return None


def _seconds(time: str) -> int:
  """Seconds of a time limit as sbatch takes it; 0: there is no limit.

  Raises:
    UserError: The time is none that sbatch takes.
  """
  if time.lower() in ("infinite", "unlimited", "-1"):
    return 0
  match = _TIME.fullmatch(time)
  if not match:
    raise UserError(
      f"--time={time} is not a time limit that sbatch takes: write MINUTES,"
      " MINUTES:SECONDS, HOURS:MINUTES:SECONDS, DAYS-HOURS,"
      " DAYS-HOURS:MINUTES, DAYS-HOURS:MINUTES:SECONDS or UNLIMITED."
    )
  days, *parts = (int(part) if part else None for part in match.groups())
  numbers = [part for part in parts if part is not None]
  if days is None and len(numbers) < 3:
    numbers = [0, *numbers]
  hours, minutes, seconds = [*numbers, 0, 0][:3]
  total = (((days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
  return -(-total // 60) * 60  # SLURM has whole minutes, rounded up.


def _pattern(path: str) -> str:
  """A path as SLURM's file name patterns have it."""
  if "\\" in path:  # It would switch all patterns off.
    raise UserError(
      f"SLURM cannot write logs below {path}: it has a backslash."
    )
  return path.replace("%", "%%")


if __name__ == "__main__":
  define_flags()
  command_line.run(main, config_flag="config")
