"""Joining the processes of a run."""

import hashlib
import json
import os
import platform
import socket

import jax

from vit_jax import versions
from vit_jax.config import resolve, schema
from vit_jax.errors import UserError
from vit_jax.sharding import agreement
from vit_jax.training import peers

# How long a lone process may hear nothing of itself, as while a laptop sleeps;
# jax's 100 s end the run when it wakes up.
_PATIENCE_SECONDS = 10 * 365 * 24 * 3600


def initialize() -> None:
  """Joins the processes of this run; a lone process joins itself.

  The address, number and index of processes come from the cluster (TPU pods,
  SLURM, Kubernetes) or from JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and
  JAX_PROCESS_ID. Joining is also what makes SIGTERM a request to save and
  stop rather than the end of the process.
  """
  if jax.distributed.is_initialized():
    return
  silent_seconds = 2 * peers.SILENT_SECONDS
  if "JAX_COORDINATOR_ADDRESS" in os.environ:
    jax.distributed.initialize(
      os.environ["JAX_COORDINATOR_ADDRESS"],
      int(os.environ["JAX_NUM_PROCESSES"]),
      int(os.environ["JAX_PROCESS_ID"]),
      heartbeat_timeout_seconds=silent_seconds,
    )
    return
  try:
    jax.distributed.initialize(heartbeat_timeout_seconds=silent_seconds)
  except ValueError:  # No cluster around: one process.
    with socket.socket() as probe:
      probe.bind(("localhost", 0))
      port = probe.getsockname()[1]
    # Simulated CPU devices of one process need no network between them.
    jax.config.update("jax_cpu_collectives_implementation", None)
    jax.distributed.initialize(
      f"localhost:{port}", 1, 0, heartbeat_timeout_seconds=_PATIENCE_SECONDS
    )
  except RuntimeError as error:
    # Called from a program that has used jax before: it stays alone.
    if "before any JAX" not in str(error):
      raise


def check_alike(config: schema.Config) -> None:
  """Whether all processes were started with the same config and packages.

  `data_dir` may differ: hosts keep their data where they like.

  Raises:
    UserError: on all processes, naming the first that differs and its keys.
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
