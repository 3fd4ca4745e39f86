"""Joining the processes of a run."""

import hashlib
import json
import os
import platform
import socket
from collections.abc import Sequence

import jax

from vit_jax import versions
from vit_jax.config import resolve, schema
from vit_jax.errors import UserError
from vit_jax.processes import agreement, jax_private, liveness, rendezvous

_START_SECONDS = 300  # jax's own.
# How long a lone process may hear nothing of itself, as while a laptop sleeps;
# jax's 100 s end the run when it wakes up.
_PATIENCE_SECONDS = 10 * 365 * 24 * 3600
# All that is known is given to jax. For devices that are None it would ask the
# cluster again, and take one of a task of SLURM.
_NO_DETECTION = "deactivate"


def initialize() -> None:
  """Joins the processes of this run; a lone process joins itself.

  The address, number and index of processes come from the cluster (TPU pods,
  SLURM, Kubernetes) or from JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and
  JAX_PROCESS_ID. Joining is also what makes SIGTERM a request to save and
  stop rather than the end of the process.

  Raises:
    LostError: Processes are missing after five minutes, or
      VIT_JAX_START_SECONDS.
    UserError: The environment variables make no sense.
  """
  if jax.distributed.is_initialized():
    return
  if jax_private.backends_are_initialized():
    return  # Called from a program that has used jax before: it stays alone.
  seconds = _number("VIT_JAX_START_SECONDS", _START_SECONDS)
  place = _place(seconds)
  if place is None:
    _initialize_alone()
    return
  address, count, index, local_devices = place
  rendezvous.meet(address, count, index, seconds)
  jax.distributed.initialize(
    address,
    count,
    index,
    local_devices,
    cluster_detection_method=_NO_DETECTION,
    initialization_timeout=seconds,
    heartbeat_timeout_seconds=liveness.jax_limit(),
  )


def _place(seconds: int) -> tuple[str, int, int, Sequence[int] | None] | None:
  """Coordinator, processes, number of this one, its devices.

  Devices are None where jax is to choose: all, or JAX_LOCAL_DEVICE_IDS.
  None if there are no others.
  """
  if "JAX_COORDINATOR_ADDRESS" in os.environ:
    count = _number("JAX_NUM_PROCESSES")
    index = _number("JAX_PROCESS_ID")
    if index >= count:
      raise UserError(
        f"JAX_PROCESS_ID = {index} must be less than JAX_NUM_PROCESSES ="
        f" {count}; the first process is 0."
      )
    address = os.environ["JAX_COORDINATOR_ADDRESS"]
    return address, count, index, _device_of_task()
  address, count, index, local_devices = jax_private.detect_cluster(seconds)
  if address is None:
    return None
  # jax gives a process of SLURM one GPU, which is meant where a node has
  # several. It takes JAX_LOCAL_DEVICE_IDS, unless it is given others.
  if count <= _num_nodes() or "JAX_LOCAL_DEVICE_IDS" in os.environ:
    local_devices = None
  return address, count, index, local_devices


def _device_of_task() -> list[int] | None:
  """The GPU of one of several tasks that a step of SLURM has on a node."""
  if (
    "SLURM_STEP_NODELIST" not in os.environ
    or "JAX_LOCAL_DEVICE_IDS" in os.environ
    or _number("SLURM_NTASKS", 1) <= _num_nodes()
  ):
    return None
  return [_number("SLURM_LOCALID")]


def _num_nodes() -> int:
  """Nodes of the step of SLURM that this process is in; 1 outside of one."""
  return _number("SLURM_STEP_NUM_NODES", 1)


def _number(name: str, default: int | None = None) -> int:
  text = os.environ.get(name)
  if text is None and default is not None:
    return default
  if text is None or not text.isdecimal():
    said = "is not set" if text is None else f"= {text!r}"
    raise UserError(
      f"The environment variable {name} {said}; it must be a whole number."
    )
  return int(text)


def _initialize_alone() -> None:
  with socket.socket() as probe:
    probe.bind(("localhost", 0))
    port = probe.getsockname()[1]
  # Simulated CPU devices of one process need no network between them.
  jax.config.update("jax_cpu_collectives_implementation", None)
  jax.distributed.initialize(
    f"localhost:{port}",
    1,
    0,
    cluster_detection_method=_NO_DETECTION,
    heartbeat_timeout_seconds=_PATIENCE_SECONDS,
  )


def check_alike(config: schema.Config) -> None:
  """Checks that all processes were started with the same config and packages.

  `data_dir` may differ: hosts keep their data where they like.

  Raises:
    UserError: Processes differ; raised on all of them, naming the first that
      differs and its keys.
  """
  mine = resolve.flatten(json.loads(resolve.dump(config)))
  mine |= {f"versions.{k}": v for k, v in versions.installed().items()}
  del mine["data_dir"]
  text = json.dumps(mine, sort_keys=True)
  digest = hashlib.sha256(text.encode()).hexdigest()
  if len(set(agreement.gather(digest))) == 1:
    return
  hosts = agreement.gather(platform.node())
  first, *others = [json.loads(entry) for entry in agreement.gather(text)]
  for process, other in enumerate(others, start=1):
    lines = [
      f"  {key}: {json.dumps(other.get(key))} there,"
      f" {json.dumps(first.get(key))} on process 0"
      for key in sorted(first | other)
      if first.get(key) != other.get(key)
    ]
    if lines:
      raise UserError(
        f"Process {process} on host {hosts[process]} was started differently:\n"
        + "\n".join(lines)
        + "\nStart all processes with the same command and packages."
      )
