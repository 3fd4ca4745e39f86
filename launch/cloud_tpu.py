"""Runs an experiment on Cloud TPU VMs, through queued resources.

  python -m launch.cloud_tpu --name=h14 --zone=us-west4-a --spot
    --accelerator_type=v5litepod-256
    --config=configs/vit_h14_jft.py --workdir=gs://BUCKET/h14

Requests the TPU, waits for it, installs the checked-out commit on all workers,
starts training there, and watches the run. A preempted TPU is requested again;
when the run has ended, the logs are fetched and the TPU is deleted. Stop
watching with Ctrl-C: the run continues, and the same command can watch it
again.

  python -m launch.cloud_tpu logs --name=h14 --zone=us-west4-a
  python -m launch.cloud_tpu stop --name=h14 --zone=us-west4-a
  python -m launch.cloud_tpu delete --name=h14 --zone=us-west4-a

show the end of the first worker's log, let the run save and end, and delete the
TPU with all that is on it. See docs/cloud_tpu.md.
"""

import dataclasses
import hashlib
import os
import sys
from collections.abc import Sequence

from absl import flags

from launch import exit_codes, experiment, rendering, restarts
from launch.plan import Command, Plan, show_or_carry_out
from vit_jax import command_line
from vit_jax.errors import UserError

# https://cloud.google.com/tpu/docs/runtimes; older ones have the last.
_RUNTIMES = {
  "v6e": "v2-alpha-tpuv6e",
  "v5p": "v2-alpha-tpuv5",
  "v5litepod": "v2-alpha-tpuv5-lite",
  "v4": "tpu-ubuntu2204-base",
  "v3": "tpu-ubuntu2204-base",
  "v2": "tpu-ubuntu2204-base",
}
_ACTIONS = ("run", "logs", "stop", "delete")
_QUEUED = ("gcloud", "compute", "tpus", "queued-resources")


def define_flags() -> None:
  experiment.define_flags()
  experiment.define_name()
  flags.DEFINE_string("zone", None, "Zone of the TPU, such as us-west4-a.")
  flags.DEFINE_string("project", None, "Project; by default gcloud's.")
  flags.DEFINE_string(
    "accelerator_type",
    None,
    "Cloud TPU accelerator type, such as v5litepod-256.",
  )
  flags.DEFINE_string(
    "runtime_version",
    None,
    "Runtime version; by default that of the accelerator type.",
  )
  flags.DEFINE_integer(
    "num_slices", 1, "Number of TPUs of that type.", lower_bound=1
  )
  flags.DEFINE_bool("spot", False, "Use a spot TPU, which may be preempted.")
  flags.DEFINE_multi_string(
    "create", [], "Further option for `gcloud ... create`."
  )
  flags.DEFINE_string(
    "setup",
    None,
    "Bash command for each worker before a start, such as one that mounts"
    " the data; it must be safe to run again.",
  )
  flags.DEFINE_integer(
    "max_restarts",
    3,
    "Maximum number of restarts without an hour's run.",
    lower_bound=0,
  )
  flags.DEFINE_integer(
    "install_seconds",
    3600,
    "Time limit of an installation, including --setup, before it is retried.",
    lower_bound=1,
  )
  flags.DEFINE_bool("keep", False, "Do not delete the TPU at the end.")
  flags.DEFINE_integer(
    "poll_seconds",
    60,
    "Interval between checks of the run, and between copies of its logs.",
    lower_bound=1,
  )


@dataclasses.dataclass(frozen=True)
class Place:
  """A queued resource, and how to reach it."""

  name: str
  zone: str
  project: str | None = None

  @property
  def options(self) -> list[str]:
    """Flags of every gcloud command, which never prompts."""
    project = [f"--project={self.project}"] if self.project else []
    return [f"--zone={self.zone}", *project, "--quiet"]

  @property
  def folder(self) -> str:
    """Folder on each worker, in the home directory."""
    return f"vit_jax-{self.name}"


@dataclasses.dataclass(frozen=True)
class Job:
  """Cloud TPU resources to request; fields are the flags of the same names."""

  accelerator_type: str
  runtime_version: str
  num_slices: int = 1
  spot: bool = False
  create: tuple[str, ...] = ()
  setup: str | None = None
  max_restarts: int = 3
  install_seconds: int = 3600
  keep: bool = False
  poll_seconds: int = 60


def main(argv: Sequence[str]) -> int:
  action, *rest = argv[1:] or ["run"]
  if action not in _ACTIONS or rest:
    raise UserError(
      f'Unexpected argument "{(rest or [action])[0]}"; the actions are'
      f" {', '.join(_ACTIONS)}."
    )
  given = flags.FLAGS
  if not given.zone:
    raise UserError("No zone was named: give --zone=ZONE, as in us-west4-a.")
  place = Place(experiment.name(), given.zone, given.project)
  if action != "run":
    plan = action_plan(action, place)
    return show_or_carry_out(plan, dry_run=given.dry_run)
  taken = experiment.from_flags(same_environment=False)
  job = Job(
    given.accelerator_type or "",
    given.runtime_version or runtime_version(given.accelerator_type),
    given.num_slices,
    given.spot,
    tuple(given.create),
    given.setup,
    given.max_restarts,
    given.install_seconds,
    given.keep,
    given.poll_seconds,
  )
  revision = experiment.commit(allow_changes=given.dry_run)
  config = experiment.config_inside(taken, revision)
  plan = make_plan(taken, config, place, job, revision=revision)
  return show_or_carry_out(plan, dry_run=given.dry_run)


def runtime_version(accelerator_type: str | None) -> str:
  """The software of a TPU VM, by the accelerator type.

  Raises:
    UserError: No such accelerator is known.
  """
  if not accelerator_type:
    raise UserError(
      "No TPU was named: give --accelerator_type=TYPE, as in v5litepod-256."
    )
  generation = accelerator_type.partition("-")[0]
  if generation not in _RUNTIMES:
    raise UserError(
      f"--accelerator_type={accelerator_type} is of no known generation"
      f" ({', '.join(_RUNTIMES)}); if there is one, give --runtime_version too."
    )
  return _RUNTIMES[generation]


def simple_command(action: str, place: Place) -> Command:
  """The gcloud command of an action on a TPU that is there."""
  if action == "delete":
    words = ["delete", place.name, "--force"]
  else:
    words = ["ssh", place.name, f"--command={_worker(place, action)}"]
    everywhere = ["--node=all", "--worker=all"]
    words += everywhere if action == "stop" else ["--node=0", "--worker=0"]
  return Command([*_QUEUED, *words, *place.options])


def action_plan(action: str, place: Place) -> Plan:
  """The command of an action, and a script that sees whether all answer it."""
  command = simple_command(action, place)
  if action == "delete":
    return Plan({}, [command])
  script = os.path.join(_folder(place), f"{action}.sh")
  text = rendering.render(
    "ask.sh.jinja",
    action=action,
    place=place,
    queued=_QUEUED,
    words=command.words,
  )
  return Plan({script: text}, [Command(["bash", script])])


def make_plan(
  taken: experiment.Experiment,
  config: str,
  place: Place,
  job: Job,
  *,
  revision: str,
) -> Plan:
  """The scripts for here and for the workers, and what starts them.

  Args:
    taken: Experiment to train.
    config: The experiment file's path inside the clone.
    place: Queued resource of the TPU.
    job: Resources to train it on.
    revision: Commit to train with.

  Raises:
    UserError: The run's directory would vanish with the TPU.
  """
  if not taken.workdir.startswith("gs://"):
    raise UserError(
      f"--workdir={taken.workdir} would be on a disk that goes with the TPU;"
      " name one in a bucket, --workdir=gs://BUCKET/PATH."
    )
  folder = _folder(place)
  watch, worker, archive = (
    os.path.join(folder, name)
    for name in ("watch.sh", "worker.sh", "commit.tar.gz")
  )
  create = [f"--accelerator-type={job.accelerator_type}"]
  create += [f"--runtime-version={job.runtime_version}"]
  if job.num_slices == 1:
    create += [f"--node-id={place.name}"]
  else:
    create += [f"--node-count={job.num_slices}", f"--node-prefix={place.name}"]
  create += [*(["--spot"] if job.spot else []), *job.create]
  workers_script = rendering.render(
    "worker.sh.jinja",
    job=job,
    revision=revision,
    # The first is for the workdir in a bucket.
    packages=["gcsfs", *taken.trackers],
    workdir=taken.workdir,
    command=taken.command(".venv/bin/python", config),
  )
  digest = hashlib.sha256(workers_script.encode()).hexdigest()
  # A slice that gcloud left out of the copying may have an earlier one.
  copied = f"sha256sum {place.folder}/worker.sh | grep -q {digest} &&"
  watch_script = rendering.render(
    "watch.sh.jinja",
    job=job,
    place=place,
    queued=_QUEUED,
    create=create,
    files=[archive, worker],
    logs=os.path.join(folder, "logs"),
    install=f"{copied} {_worker(place, 'install')}",
    start=f"{copied} {_worker(place, 'start')}",
    status=_worker(place, "status"),
    preempted_codes=exit_codes.PREEMPTED_CODES,
    interrupted=exit_codes.INTERRUPTED,
    good_seconds=restarts.GOOD_SECONDS,
  )
  files = {watch: watch_script, worker: workers_script}
  return Plan(
    files, [experiment.archive(revision, archive), Command(["bash", watch])]
  )


def _folder(place: Place) -> str:
  """The folder of its scripts and logs here.

  TPUs of several zones and projects may have one name, and the watch of each
  reads its files again as long as it lasts.
  """
  return os.path.join(
    "runs", "launch", place.name, place.project or "", place.zone
  )


def _worker(place: Place, action: str) -> str:
  """The command of a worker for an action; its words need no quotes."""
  return f"bash {place.folder}/worker.sh {action}"


if __name__ == "__main__":
  define_flags()
  # Only `run` takes an experiment.
  runs = not set(_ACTIONS[1:]) & set(sys.argv[1:])
  command_line.run(main, config_flag="config" if runs else None)
