"""Starts an experiment on TPUs or GPUs of a Kubernetes cluster (GKE).

  python -m launch.gke --name=h14 --tpu=v5e:16x16 --spot
    --image=us-docker.pkg.dev/PROJECT/REPOSITORY/vit_jax
    --config=configs/vit_h14_jft.py --workdir=gs://BUCKET/h14

  python -m launch.gke --name=b16 --gpu=nvidia-h100-80gb --nodes=4
    --gpus_per_node=8 --image=... --config=... --workdir=gs://BUCKET/b16

Builds an image of the checked-out commit, pushes it, and creates a JobSet in
kubectl's current cluster. Kubernetes restarts the run when it is preempted, and
ends it when a restart would repeat the error. See docs/gke.md.
"""

import dataclasses
import os
import sys
from collections.abc import Sequence

from absl import flags

from launch import (
  accelerators,
  compile_check,
  exit_codes,
  experiment,
  rendering,
)
from launch.plan import Command, Plan, show_or_carry_out
from vit_jax import command_line
from vit_jax.errors import UserError

_COORDINATOR_PORT = 8476


def define_flags() -> None:
  experiment.define_flags()
  experiment.define_name()
  compile_check.define_flags()
  flags.DEFINE_string(
    "image",
    None,
    "Repository for the image, without a tag, which is made of the commit and"
    " the packages installed with it.",
  )
  flags.DEFINE_bool(
    "build", True, "Build and push the image; --nobuild uses --image as given."
  )
  flags.DEFINE_string(
    "tpu", None, "TPU slice, such as v5e:16x16; 2*v5e:16x16 are two."
  )
  flags.DEFINE_integer(
    "chips_per_host",
    None,
    "TPU chips per node; 8 for a v5e:2x4 or v6e:2x4 of one node.",
    lower_bound=1,
  )
  flags.DEFINE_string(
    "gpu", None, "GPU, as in the node label cloud.google.com/gke-accelerator."
  )
  flags.DEFINE_integer("nodes", 1, "Number of nodes with GPUs.", lower_bound=1)
  flags.DEFINE_integer("gpus_per_node", 8, "GPUs per node.", lower_bound=1)
  flags.DEFINE_bool("spot", False, "Use spot nodes, which may be preempted.")
  flags.DEFINE_integer(
    "grace_seconds",
    120,
    "Time to save after SIGTERM; spot nodes give less, regardless of this.",
    lower_bound=1,
  )
  flags.DEFINE_integer(
    "max_restarts",
    3,
    "Maximum number of restarts without an hour's run.",
    lower_bound=0,
  )
  flags.DEFINE_string("namespace", "default", "Namespace of the JobSet.")
  flags.DEFINE_string(
    "service_account",
    None,
    "Kubernetes service account with access to the buckets.",
  )
  flags.DEFINE_string(
    "data_bucket", None, "Bucket to mount, read-only, at /data."
  )
  flags.DEFINE_string(
    "cache_claim",
    None,
    "PersistentVolumeClaim for compiled programs; by default they are lost with"
    " their pod.",
  )


@dataclasses.dataclass(frozen=True)
class Nodes:
  """The pods of a JobSet and the nodes they want.

  Attributes:
    selector: Labels that select a node.
    resource: Name of the resource that is counted on a node.
    per_node: Amount of the resource on a node; a pod takes all of it.
    replicas: Number of jobs: TPU slices, or one for all GPUs.
    pods: Number of pods of each job.
    extra: Extra of jax that is installed in the image.
  """

  selector: dict[str, str]
  resource: str
  per_node: int
  replicas: int
  pods: int
  extra: str


@dataclasses.dataclass(frozen=True)
class Job:
  """Kubernetes resources to request; fields are the flags of the same names."""

  name: str
  image: str
  nodes: Nodes
  grace_seconds: int = 120
  max_restarts: int = 3
  spot: bool = False
  namespace: str = "default"
  service_account: str | None = None
  data_bucket: str | None = None
  cache_claim: str | None = None


def main(argv: Sequence[str]) -> int:
  command_line.no_arguments(argv)
  taken = experiment.from_flags(same_environment=False)
  given = flags.FLAGS
  if not given.image:
    raise UserError("No image was named: give --image=REGISTRY/PATH.")
  if bool(given.tpu) == bool(given.gpu):
    raise UserError("Give one of --tpu=v5e:16x16 and --gpu=nvidia-h100-80gb.")
  _none_of(("nodes", "gpus_per_node") if given.tpu else ("chips_per_host",))
  if given.tpu:
    nodes = tpu_nodes(given.tpu, given.chips_per_host)
  else:
    nodes = gpu_nodes(given.gpu, given.nodes, given.gpus_per_node)
  revision = None
  if given.build:
    revision = experiment.commit(allow_changes=given.dry_run)
  config = experiment.config_inside(taken, revision)
  image = given.image
  if revision:
    if ":" in image.rpartition("/")[2] or "@" in image:
      raise UserError(
        f"--image={image} has a tag, but the commit is to be in the tag; leave"
        " it out, or give --nobuild to use that image as it is."
      )
    # All that changes what is installed.
    image = f"{image}:{'-'.join([revision[:12], nodes.extra, *taken.trackers])}"
  elif taken.trackers:
    print(
      f"--image={image} must have {' and '.join(taken.trackers)}, which"
      " config.log.to needs; --nobuild installs nothing.",
      file=sys.stderr,
    )
  job = Job(
    experiment.name(),
    image,
    nodes,
    given.grace_seconds,
    given.max_restarts,
    given.spot,
    given.namespace,
    given.service_account,
    given.data_bucket,
    given.cache_claim,
  )
  plan = make_plan(taken, config, job, revision=revision)
  if compile_check.is_wanted():
    compile_check.check(
      taken,
      given.tpu
      or compile_check.gpus(given.gpu, given.nodes, given.gpus_per_node),
    )
  return show_or_carry_out(plan, dry_run=given.dry_run)


def _none_of(names: Sequence[str]) -> None:
  """Raises UserError if a flag is given that would change nothing."""
  others = "TPUs" if flags.FLAGS.gpu else "GPUs"
  for name in names:
    if flags.FLAGS[name].present:
      raise UserError(f"--{name} is for {others}; leave it out.")


def tpu_nodes(name: str, chips_per_host: int | None = None) -> Nodes:
  """Nodes of TPU slices; see `accelerators.parse`."""
  tpu = accelerators.parse(name, chips_per_host)
  return Nodes(
    {
      "cloud.google.com/gke-tpu-accelerator": tpu.accelerator,
      "cloud.google.com/gke-tpu-topology": tpu.topology,
    },
    "google.com/tpu",
    tpu.chips_per_host,
    tpu.count,
    tpu.num_hosts,
    "tpu",
  )


def gpu_nodes(gpu: str, nodes: int, gpus_per_node: int) -> Nodes:
  """Nodes with NVIDIA GPUs."""
  return Nodes(
    {"cloud.google.com/gke-accelerator": gpu},
    "nvidia.com/gpu",
    gpus_per_node,
    1,
    nodes,
    "cuda12",
  )


def make_plan(
  taken: experiment.Experiment,
  config: str,
  job: Job,
  *,
  revision: str | None,
) -> Plan:
  """The manifest, and the commands that build the image and create the JobSet.

  Args:
    taken: Experiment to train.
    config: The experiment file's path inside the image.
    job: Resources to train it on.
    revision: Commit to build the image from; None uses an existing image.

  Raises:
    UserError: The run's directory would vanish with its pod.
  """
  if "://" not in taken.workdir:
    raise UserError(
      f"--workdir={taken.workdir} would be on a disk that goes with its pod;"
      " name one in a bucket, --workdir=gs://BUCKET/PATH."
    )
  folder = os.path.join("runs", "launch", job.name)
  manifest = os.path.join(folder, "jobset.yaml")
  content = rendering.render(
    "jobset.yaml.jinja",
    job=job,
    command=[
      *("python", "-m", "launch.supervise"),
      f"--max_restarts={job.max_restarts}",
      "--",
      *taken.command("python", config),
    ],
    coordinator=f"{job.name}-workers-0-0.{job.name}:{_COORDINATOR_PORT}",
    # Kubernetes wants them in order.
    preempted_codes=sorted(exit_codes.PREEMPTED_CODES),
  )
  commands = []
  if revision:
    archive = os.path.join(folder, "commit.tar.gz")
    build = ["docker", "build", "--file=launch/Dockerfile"]
    build += [f"--build-arg=ACCELERATOR={job.nodes.extra}"]
    build += [f"--build-arg=TRACKERS={' '.join(taken.trackers)}"]
    build += [f"--build-arg=COMMIT={revision}"]
    commands += [
      experiment.archive(revision, archive),
      Command([*build, f"--tag={job.image}", "-"], stdin=archive),
      Command(["docker", "push", job.image]),
    ]
  commands.append(Command(["kubectl", "create", f"--filename={manifest}"]))
  return Plan({manifest: content}, commands)


if __name__ == "__main__":
  define_flags()
  command_line.run(main, config_flag="config")
