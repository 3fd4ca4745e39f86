"""A lock that allows one job at a time in a workdir.

The file `run.lock` names the job that writes there. On the same machine, the
job's process shows whether it is alive; on others and in copies of the workdir,
the file's modification time does, which the job renews. Only file system times
are compared, never host clocks. A killed job therefore does not block others.

In a bucket, the lock is an object that is created, renewed and replaced under
the storage's preconditions: of two jobs that start together, exactly one gets
it, and a job that has lost it cannot renew it.

`filelock` and `fcntl.flock` are not used because they exclude only processes on
one machine and are unreliable on network file systems. They do not support
buckets, and can neither name the holder nor detect that it died on another
host.
"""

import contextlib
import json
import logging
import os
import platform
import threading
import time
import uuid
from typing import Any, NoReturn

from etils import epath

from vit_jax import buckets
from vit_jax.errors import UserError
from vit_jax.rundir import lock_files

NAME = "run.lock"
RENEW_SECONDS = 10
# A job elsewhere counts as dead after this long without a sign of life.
DEAD_SECONDS = 60
# Keeps running while the machine sleeps, if there is such a clock.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_logger = logging.getLogger(__name__)


class WorkdirLock:
  """Holds a workdir, from construction to `release`.

  Args:
    workdir: Existing directory.

  Raises:
    UserError: Another job holds it; the message names host and process.
    OSError: The lock cannot be written.
  """

  def __init__(self, workdir: epath.PathLike):
    self._workdir = epath.Path(workdir)
    path = self._workdir / NAME
    self._lost_to = ""
    self._seen: int | None = None
    self._dead: dict[str, Any] | None = None
    self._released = threading.Event()
    self._renewing = threading.Lock()
    with buckets.as_os_error(path):
      in_bucket = buckets.is_bucket(path)
      # A copy of a directory has the lock of the original, whose process says
      # nothing about the copy.
      inode = "" if in_bucket else f" {os.stat(self._workdir).st_ino}"
      self._owner = _this_process(_machine() + inode)
      kind = lock_files.LockObject if in_bucket else lock_files.LockFile
      self._file = kind(path)
      self._renewed = self._tried = _now()
      while not self._try():
        time.sleep(self._file.poll_seconds)
        self._renewed = self._tried = _now()
    if self._dead:
      _logger.warning(
        "%s was held by %s, which is gone; this job takes over.",
        self._workdir,
        _named(self._dead),
      )
    self._thread = threading.Thread(target=self._keep_renewing, daemon=True)
    self._thread.start()

  @property
  def is_lost(self) -> bool:
    """Returns True if another job has taken over the workdir."""
    return bool(self._lost_to)

  def check(self) -> None:
    """Raises UserError if another job has taken over the workdir."""
    if not self._lost_to and _now() - self._tried > DEAD_SECONDS:
      # The process was stopped so long that it may have seemed dead.
      self._renew()
    if self._lost_to:
      raise UserError(
        f"{self._workdir} was taken over by {self._lost_to}, for which"
        " this job seemed dead; this one ends, so that the two do not mix."
      )

  def release(self) -> None:
    """Releases the lock for the next job."""
    self._released.set()
    if self._thread is None:
      return
    self._thread.join()
    self._thread = None
    # A lock that cannot be removed expires after DEAD_SECONDS.
    with contextlib.suppress(OSError), buckets.as_os_error(self._workdir):
      with self._file.alone():
        holder, version = self._read()
        if holder == self._owner:
          self._file.remove(version)

  def _try(self) -> bool:
    """Takes the lock if it is free; False means to try again.

    Raises:
      UserError: Its holder is alive.
    """
    with self._file.alone():
      holder, version = self._read()
      if holder == self._owner:  # Already written, despite no response.
        return True
      if holder and not self._is_dead(holder):
        self._wait_for(holder, version)
        return False
      try:
        self._file.write(self._text, version)
      except lock_files.ChangedError:  # Another won, or a response was lost.
        return False
      self._dead = holder
      return True

  def _wait_for(self, holder: dict[str, Any], version: int) -> None:
    """Waits for the holder; raises UserError at a sign of life."""
    if holder["machine"] == self._owner["machine"]:
      self._refuse(holder)
    if self._seen is None:
      _logger.warning(
        "%s is held by %s; waiting to see whether that job still lives.",
        self._workdir,
        _named(holder),
      )
    elif version != self._seen:
      self._refuse(holder)
    self._seen = version

  def _is_dead(self, holder: dict[str, Any]) -> bool:
    if holder["machine"] == self._owner["machine"]:
      # A lock of this process was left by an earlier run in it.
      return (
        holder["pid"] == self._owner["pid"]
        or _started(holder["pid"]) != holder["started"]
      )
    try:
      return self._file.age(self._owner["token"]) > DEAD_SECONDS
    except FileNotFoundError:  # It has just ended.
      return False

  def _refuse(self, holder: dict[str, Any]) -> NoReturn:
    raise UserError(
      f"{self._workdir} is in use by {_named(holder)}. Wait for it or stop it,"
      " or give another directory."
    )

  def _keep_renewing(self) -> None:
    while not self._lost_to and not self._released.wait(RENEW_SECONDS):
      self._renew()

  def _renew(self) -> None:
    """Gives a sign of life, or detects that the lock is lost."""
    if not self._renewing.acquire(timeout=RENEW_SECONDS):
      return  # The other thread's storage does not respond.
    try:
      # An error may be temporary; the next renewal tries again.
      with contextlib.suppress(OSError), buckets.as_os_error(self._workdir):
        for _ in range(3):
          with contextlib.suppress(lock_files.ChangedError):
            self._renew_once()
            break
    finally:
      self._tried = _now()
      self._renewing.release()

  def _renew_once(self) -> None:
    """Raises ChangedError if the lock has changed in the meantime."""
    now = _now()
    holder, version = self._read()
    if holder == self._owner or (
      # Someone removed it.
      holder is None and now - self._renewed <= DEAD_SECONDS
    ):
      self._file.renew(self._text, version)
      self._renewed = now
    else:
      self._lost_to = _named(holder) if holder else "a job that has ended"

  @property
  def _text(self) -> str:
    return json.dumps(self._owner) + "\n"

  def _read(self) -> tuple[dict[str, Any] | None, int]:
    """Returns the lock's holder and version; None if it is not a lock."""
    text, version = self._file.read()
    try:
      holder = json.loads(text)
      known = holder.keys() == self._owner.keys()
      return (holder if known else None), version
    except (ValueError, AttributeError):
      return None, version


def _now() -> float:
  """Returns seconds since a fixed moment."""
  return time.clock_gettime(_CLOCK)


def _this_process(machine: str) -> dict[str, Any]:
  pid = os.getpid()
  return {
    "host": platform.node(),
    "pid": pid,
    "machine": machine,
    "started": _started(pid),
    "since": time.strftime("%Y-%m-%d %H:%M:%S %z"),
    "token": uuid.uuid4().hex,
  }


def _machine() -> str:
  """Identifies the kernel and container, which share visible processes."""
  try:
    with open("/proc/sys/kernel/random/boot_id") as file:
      return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
  except OSError:
    return platform.node()


def _started(pid: int) -> str | None:
  """Returns the start time of a process; None if it does not exist."""
  try:
    with open(f"/proc/{pid}/stat") as file:
      # Fields are counted after the name, which may contain spaces.
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
