"""One job at a time in a workdir.

The file `run.lock` names the job that writes there. On the same machine, the
job's process shows whether it is alive; on others, the file's modification
time, which the job renews. Only times of the file system are compared, never
the clocks of hosts. So a job that was killed blocks no other.

In a bucket the lock is an object that is written and read again after a pause:
of two jobs that start together, the one whose name is there continues. If both
continue, one finds the other's name when it renews its own, and ends.

It is our own because `filelock` and `fcntl.flock` exclude processes of one
machine, and not dependably over network file systems; they know no buckets,
and can neither name the holder nor tell that it died on another host.
"""

import contextlib
import fcntl
import json
import logging
import os
import platform
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any, NoReturn

from etils import epath

from vit_jax import buckets, records
from vit_jax.errors import UserError

NAME = "run.lock"
RENEW_SECONDS = 10
# Without a sign of life for as long as this, a job elsewhere counts as dead.
DEAD_SECONDS = 60
# Between writing the lock in a bucket and looking whether it stands.
SETTLE_SECONDS = 2
_logger = logging.getLogger(__name__)


class WorkdirLock:
  """Holds a workdir, from construction to `release`.

  Args:
    workdir: Existing directory.

  Raises:
    UserError: Another job holds it, naming host and process.
    OSError: The lock cannot be written.
  """

  def __init__(self, workdir: epath.PathLike):
    self._workdir = epath.Path(workdir)
    self._path = self._workdir / NAME
    self._owner = _this_process()
    self._lost_to: dict[str, Any] | None = None
    self._seen: float | None = None
    self._released = threading.Event()
    with buckets.as_os_error(self._path):
      while not self._try():
        time.sleep(0.5)
      if buckets.is_bucket(self._path):
        self._settle()
    self._thread = threading.Thread(target=self._renew, daemon=True)
    self._thread.start()

  def check(self) -> None:
    """Raises UserError if another job has taken the workdir over."""
    if self._lost_to is not None:
      raise UserError(
        f"{self._workdir} was taken over by {_named(self._lost_to)}, for which"
        " this job seemed dead; this one ends, so that the two do not mix."
      )

  def release(self) -> None:
    """Lets the next job in."""
    self._released.set()
    if self._thread is None:
      return
    self._thread.join()
    self._thread = None
    # A lock that cannot be removed expires after DEAD_SECONDS.
    with contextlib.suppress(OSError), buckets.as_os_error(self._path):
      with _alone(self._workdir):
        if self._read() == self._owner:
          self._path.unlink(missing_ok=True)

  def _try(self) -> bool:
    """Takes the lock if it is free; False: its holder may be dead, ask again.

    Raises:
      UserError: Its holder is alive.
    """
    with _alone(self._workdir):
      holder = self._read()
      if holder and not self._is_dead(holder):
        if holder["machine"] == self._owner["machine"]:
          self._refuse(holder)
        renewed = _mtime(self._path)
        if self._seen is None:
          _logger.warning(
            "%s is held by %s; waiting to see whether that job still lives.",
            self._workdir,
            _named(holder),
          )
        elif renewed != self._seen:
          self._refuse(holder)
        self._seen = renewed
        return False
      if holder:
        _logger.warning(
          "%s was held by %s, which is gone; this job takes over.",
          self._workdir,
          _named(holder),
        )
      records.write_text(self._path, json.dumps(self._owner) + "\n")
      return True

  def _is_dead(self, holder: dict[str, Any]) -> bool:
    if holder["machine"] == self._owner["machine"]:
      # A lock of this very process is one that an earlier run in it left.
      return (
        holder["pid"] == self._owner["pid"]
        or _started(holder["pid"]) != holder["started"]
      )
    probe = self._workdir / f".{NAME}-{self._owner['token']}"
    probe.write_text("")
    now = _mtime(probe)  # By the clock of the file system.
    probe.unlink()
    return now - _mtime(self._path) > DEAD_SECONDS

  def _settle(self) -> None:
    """Waits for others that saw the lock free when this job did.

    Raises:
      UserError: Another job holds it.
    """
    time.sleep(SETTLE_SECONDS)
    holder = self._read()
    if holder and holder != self._owner:
      self._refuse(holder)

  def _refuse(self, holder: dict[str, Any]) -> NoReturn:
    raise UserError(
      f"{self._workdir} is in use by {_named(holder)}. Wait for it or stop it,"
      " or give another directory."
    )

  def _renew(self) -> None:
    while not self._released.wait(RENEW_SECONDS):
      # An error may be temporary; the next renewal tries again.
      with contextlib.suppress(OSError), buckets.as_os_error(self._path):
        holder = self._read()
        if holder not in (self._owner, None):
          self._lost_to = holder
          return
        if holder is None or buckets.is_bucket(self._path):
          records.write_text(self._path, json.dumps(self._owner) + "\n")
        else:
          os.utime(self._path)

  def _read(self) -> dict[str, Any] | None:
    """Holder of the lock; None if there is none or the file is no lock."""
    try:
      holder = json.loads(self._path.read_text())
      return holder if holder.keys() == self._owner.keys() else None
    except (FileNotFoundError, ValueError, AttributeError):
      return None


@contextlib.contextmanager
def _alone(directory: epath.Path) -> Iterator[None]:
  """Excludes other processes, where the file system supports that."""
  if buckets.is_bucket(directory):
    yield
    return
  descriptor = os.open(directory, os.O_RDONLY)
  try:
    with contextlib.suppress(OSError):
      fcntl.flock(descriptor, fcntl.LOCK_EX)
    yield
  finally:
    os.close(descriptor)


def _mtime(path: epath.Path) -> float:
  """Modification time, in seconds, by the clock of the file system."""
  if buckets.is_bucket(path):
    return float(path.stat().mtime)
  return os.stat(path).st_mtime  # With parts of a second.


def _this_process() -> dict[str, Any]:
  pid = os.getpid()
  return {
    "host": platform.node(),
    "pid": pid,
    "machine": _machine(),
    "started": _started(pid),
    "since": time.strftime("%Y-%m-%d %H:%M:%S %z"),
    "token": uuid.uuid4().hex,
  }


def _machine() -> str:
  """Tells apart what can see each other's processes: kernel and container."""
  try:
    with open("/proc/sys/kernel/random/boot_id") as file:
      return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
  except OSError:
    return platform.node()


def _started(pid: int) -> str | None:
  """Start time of a process; None if there is no such process."""
  try:
    with open(f"/proc/{pid}/stat") as file:
      # Fields are counted after the name, which may hold spaces.
      state, *fields = file.read().rpartition(")")[2].split()
      return None if state in "ZX" else fields[18]
  except FileNotFoundError:
    if os.path.exists("/proc/self/stat"):
      return None
  try:
    os.kill(pid, 0)
    return "unknown"
  except ProcessLookupError:
    return None


def _named(holder: dict[str, Any]) -> str:
  return (
    f"process {holder['pid']} on host {holder['host']} (since"
    f" {holder['since']})"
  )
