"""Processes that run side by side and end together."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import IO

from launch import exit_codes

# When one has failed, the others notice it within a minute and end themselves.
# Those that have not after so long will not.
LEAVE_SECONDS = 180.0
_POLL_SECONDS = 0.05
# Their last lines are read at once. A child that is left of one that was killed
# may keep its output open for ever.
_LAST_LINES_SECONDS = 5.0


def environments(count: int, num_devices: int) -> list[dict[str, str]]:
  """Environment variables that join `count` processes on simulated devices.

  Args:
    count: Number of processes.
    num_devices: CPU devices that each of them simulates.

  Returns:
    The environment variables of each process, beyond those of this one. Every
    call chooses another port for the coordinator.
  """
  with socket.socket() as probe:
    probe.bind(("localhost", 0))
    address = f"localhost:{probe.getsockname()[1]}"
  return [
    {
      "JAX_PLATFORMS": "cpu",
      "JAX_NUM_CPU_DEVICES": str(num_devices),
      "JAX_COORDINATOR_ADDRESS": address,
      "JAX_NUM_PROCESSES": str(count),
      "JAX_PROCESS_ID": str(index),
    }
    for index in range(count)
  ]


class Signals:
  """Passes SIGTERM and SIGINT of this process on, as a context.

  Attributes:
    received: Set once at least one signal has been received.
  """

  def __init__(self) -> None:
    self.received = False
    self._last: int | None = None
    self._to: Processes | None = None

  def __enter__(self) -> "Signals":
    self._before = {
      number: signal.signal(number, self._pass_on)
      for number in (signal.SIGTERM, signal.SIGINT)
    }
    return self

  def __exit__(self, *unused: object) -> None:
    for number, handler in self._before.items():
      signal.signal(number, handler)

  def pass_to(self, processes: "Processes") -> None:
    """Passes signals on to these processes, the last earlier one included."""
    self._to = processes
    if self._last is not None:
      processes.send(self._last)

  def _pass_on(self, number: int, frame: FrameType | None) -> None:
    del frame
    self.received = True
    self._last = number
    if self._to:
      self._to.send(number)


class Processes:
  """Processes started together.

  Each is the leader of a session of its own: a Ctrl-C in the terminal reaches
  this process alone, which passes it on once.

  Args:
    command: Command of every process.
    environments: Variables of each process, in addition to those of this one.
    labelled: Prefixes each line of output with the index of its process.
  """

  def __init__(
    self,
    command: Sequence[str],
    environments: Sequence[Mapping[str, str]],
    *,
    labelled: bool,
  ):
    self._writing = threading.Lock()
    self._readers: list[threading.Thread] = []
    self._processes: list[subprocess.Popen] = []
    try:
      for index, variables in enumerate(environments):
        self._start(command, variables, f"{index}: " if labelled else None)
    except BaseException:
      self.send(signal.SIGKILL)
      raise

  def send(self, number: int) -> None:
    """Sends a signal to those that are still there."""
    for process in self._processes:
      process.send_signal(number)

  def wait(self, leave_seconds: float = LEAVE_SECONDS) -> list[int]:
    """Waits for all; when one has failed, for the others only so long.

    Returns:
      Their exit codes, as a shell has them.
    """
    deadline = None
    while any(process.poll() is None for process in self._processes):
      if deadline is None and any(p.returncode for p in self._processes):
        deadline = time.monotonic() + leave_seconds
      if deadline and time.monotonic() > deadline:
        self.send(signal.SIGKILL)
      time.sleep(_POLL_SECONDS)
    until = None
    if any(process.returncode for process in self._processes):
      until = time.monotonic() + _LAST_LINES_SECONDS
    for reader in self._readers:
      reader.join(until and max(until - time.monotonic(), 0.0))
    return [exit_codes.as_shell(p.returncode) for p in self._processes]

  def _start(
    self,
    command: Sequence[str],
    variables: Mapping[str, str],
    label: str | None,
  ) -> None:
    pipe = None if label is None else subprocess.PIPE
    process = subprocess.Popen(
      command,
      # Lines reach a log when they are written.
      env={**os.environ, "PYTHONUNBUFFERED": "1", **variables},
      stdin=subprocess.DEVNULL,
      stdout=pipe,
      stderr=pipe,
      start_new_session=True,
    )
    self._processes.append(process)
    if label is None:
      return
    for source, target in (
      (process.stdout, sys.stdout),
      (process.stderr, sys.stderr),
    ):
      reader = threading.Thread(
        target=self._copy, args=(source, target, label), daemon=True
      )
      reader.start()
      self._readers.append(reader)

  def _copy(self, source: IO[bytes], target: IO[str], label: str) -> None:
    for line in source:
      text = line.decode(errors="replace").rstrip("\n")
      with self._writing:
        print(label + text, file=target, flush=True)
