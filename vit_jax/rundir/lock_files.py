"""The lock file naming a workdir's job, on a file system or in a bucket.

Both kinds have the same methods. `read` returns the text and a version, and
`write` refuses to replace any other version, so a decision about one holder
never affects the next.

On a file system, this holds between processes that exclude each other by
`flock`. In a bucket, the storage compares generations, which change with each
write; of two simultaneous writes, exactly one succeeds.
"""

import contextlib
import errno
import fcntl
import json
import os
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from etils import epath

from vit_jax import records


class ChangedError(Exception):
  """The file is not the expected version."""


class LockFile:
  """A lock on a file system; all methods raise OSError.

  Attributes:
    poll_seconds: Time between checks of a lock that another job holds.
  """

  poll_seconds = 0.5

  def __init__(self, path: epath.Path):
    self._path = path

  @contextlib.contextmanager
  def alone(self) -> Iterator[None]:
    """Excludes other processes, if the file system supports it."""
    descriptor = os.open(self._path.parent, os.O_RDONLY)
    try:
      with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX)
      yield
    finally:
      os.close(descriptor)

  def read(self) -> tuple[str, int]:
    """Returns the text and version; "" and 0 if there is no file."""
    try:
      text = self._path.read_bytes().decode(errors="replace")
      return text, os.stat(self._path).st_mtime_ns
    except FileNotFoundError:
      return "", 0

  def write(self, text: str, version: int) -> None:
    """Replaces that version; the caller must hold `alone`."""
    del version
    records.write_text(self._path, text)

  def renew(self, text: str, version: int) -> None:
    """Gives the file a new version; creates it if there is none."""
    if version:
      os.utime(self._path)
    else:
      self.write(text, version)

  def remove(self, version: int) -> None:
    """Removes that version; the caller must hold `alone`."""
    del version
    self._path.unlink(missing_ok=True)

  def age(self, token: str) -> float:
    """Returns seconds since `write` or `renew`, by the file system's clock.

    Args:
      token: Part of the name of a file that is created to read that clock.

    Raises:
      FileNotFoundError: The file has been removed.
    """
    probe = _probe(self._path, token)
    probe.write_text("")
    now = os.stat(probe).st_mtime
    probe.unlink()
    return now - os.stat(self._path).st_mtime


class LockObject:
  """A lock in Google Cloud Storage; all methods raise OSError.

  It uses gcsfs's `call`, which repeats a request if the response was lost. If
  the first request succeeded, the second fails with `ChangedError`; the caller
  then finds its own text when it reads again.
  """

  poll_seconds = 2.0  # The storage accepts one write per second to an object.
  # Two requests and a pause must fit into the time within which a job must give
  # a sign of life.
  request_seconds = 20.0

  def __init__(self, path: epath.Path):
    import fsspec

    self._bucket, _, self._name = (
      os.fspath(path).removeprefix("gs://").partition("/")
    )
    # The same one as etils uses, which already has credentials.
    self._files = fsspec.filesystem("gcs", finalize_on_close=True)

  @contextlib.contextmanager
  def alone(self) -> Iterator[None]:
    """Excludes nobody, because the storage compares versions."""
    yield

  def read(self) -> tuple[str, int]:
    """Returns the text and version; "" and 0 if there is no object."""
    try:
      headers, text = self._on_object("GET", alt="media")
    except FileNotFoundError:
      return "", 0
    return text.decode(errors="replace"), int(headers["x-goog-generation"])

  def write(self, text: str, version: int) -> None:
    """Replaces that version.

    Raises:
      ChangedError: The object has another version, or does not exist although
        `version` is not 0.
    """
    self._insert(self._name, text, ifGenerationMatch=str(version))

  renew = write

  def remove(self, version: int) -> None:
    """Removes that version, unless it has been replaced."""
    with contextlib.suppress(ChangedError, FileNotFoundError):
      self._on_object("DELETE", ifGenerationMatch=str(version))

  def age(self, token: str) -> float:
    """Returns seconds since the last `write`, by the storage's clock.

    Args:
      token: Part of the name of an object that is created to read that clock.

    Raises:
      FileNotFoundError: The object has been removed.
    """
    probe = os.fspath(_probe(epath.Path(self._name), token))
    now = _updated(self._insert(probe, ""))
    with contextlib.suppress(FileNotFoundError):
      self._ask("DELETE", "b/{}/o/{}", self._bucket, probe)
    return now - _updated(self._on_object("GET", json_out=True))

  def _insert(self, name: str, text: str, **conditions: str) -> dict[str, Any]:
    """Writes an object and returns its description."""
    # The storage caches publicly readable objects for an hour.
    described = json.dumps({"name": name, "cacheControl": "no-store"})
    mark = "==run.lock=="
    parts = [
      f"--{mark}",
      "Content-Type: application/json; charset=UTF-8",
      "",
      described,
      f"--{mark}",
      "Content-Type: application/json",
      "",
      text,
      f"--{mark}--",
    ]
    return self._ask(
      "POST",
      self._files.base.replace("/storage/", "/upload/storage/")
      + f"b/{self._bucket}/o",
      uploadType="multipart",
      headers={"Content-Type": f'multipart/related; boundary="{mark}"'},
      data="\r\n".join(parts).encode(),
      json_out=True,
      **conditions,
    )

  def _on_object(self, method: str, **options: Any) -> Any:
    return self._ask(method, "b/{}/o/{}", self._bucket, self._name, **options)

  def _ask(self, method: str, path: str, *names: str, **options: Any) -> Any:
    try:
      return self._files.call(
        method, path, *names, timeout=self.request_seconds, **options
      )
    except FileExistsError:  # gcsfs's error for 412, Precondition Failed.
      raise ChangedError from None
    except TimeoutError:
      raise OSError(
        errno.ETIMEDOUT,
        f"the storage has not answered for {self.request_seconds:g} seconds",
      ) from None


def _probe(path: epath.Path, token: str) -> epath.Path:
  return path.with_name(f".{path.name}-{token}")


def _updated(description: dict[str, Any]) -> float:
  return datetime.fromisoformat(description["updated"]).timestamp()
