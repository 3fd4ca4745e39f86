"""The processes of a run: joined at the start, asked for a stop together."""

import os
import signal
import socket
from types import FrameType

import jax

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
  if "JAX_COORDINATOR_ADDRESS" in os.environ:
    jax.distributed.initialize(
      os.environ["JAX_COORDINATOR_ADDRESS"],
      int(os.environ["JAX_NUM_PROCESSES"]),
      int(os.environ["JAX_PROCESS_ID"]),
    )
    return
  try:
    jax.distributed.initialize()
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


class Interrupt:
  """Turns the first Ctrl-C into a request; the second one ends the process.

  With several processes Ctrl-C becomes SIGTERM, on which all stop at the same
  step.
  """

  def __init__(self) -> None:
    self.requested = False
    self._previous = signal.getsignal(signal.SIGINT)

  def __enter__(self) -> "Interrupt":
    signal.signal(signal.SIGINT, self._on_signal)
    return self

  def __exit__(self, *unused: object) -> None:
    signal.signal(signal.SIGINT, self._previous)

  def _on_signal(self, signum: int, frame: FrameType | None) -> None:
    del signum, frame
    self.requested = True
    signal.signal(signal.SIGINT, self._previous)
    print("\nCtrl-C: saving after this step; again to stop at once.")
    if jax.process_count() > 1:
      os.kill(os.getpid(), signal.SIGTERM)
