"""Upload of a run's growing files to a bucket.

Objects in a bucket cannot be appended to. If the workdir is in a bucket, the
first process therefore writes the records to a local directory, and copies new
content at every save, once a minute and at the end.
"""

import contextlib
import logging
import os
import tempfile
import threading
from collections.abc import Iterable

from etils import epath

from vit_jax import buckets

EVERY_SECONDS = 60.0
# Copied after the files that their lines refer to.
_LAST = ("attempts.json", "metrics.jsonl", "summary.json")
# Files and directories that are about to be renamed.
_UNFINISHED = (".tmp", ".tmp-old", ".partial")
_logger = logging.getLogger(__name__)


class BucketUpload:
  """Local directory of a run's records, and their upload to its workdir.

  A workdir on a file system is written to directly, and nothing is copied.

  Attributes:
    path: Directory to write to.

  Args:
    workdir: Existing directory of the run.
    fetch: Names of files to continue from the copy in the workdir.
    every_seconds: Seconds between copies.

  Raises:
    OSError: The files of the earlier run cannot be fetched.
  """

  def __init__(
    self,
    workdir: epath.Path,
    *,
    fetch: Iterable[str] = (),
    every_seconds: float = EVERY_SECONDS,
  ):
    self.path = self._workdir = workdir
    self._thread = None
    if not buckets.is_bucket(workdir):
      return
    self.path = epath.Path(tempfile.mkdtemp(prefix="vit_jax-records-"))
    self._every_seconds = every_seconds
    self._uploaded: dict[str, tuple[int, int]] = {}
    self._error: OSError | None = None
    self._one_at_a_time = threading.Lock()
    self._closing = threading.Event()
    try:
      for name in fetch:
        # Not `exists`, for which some file systems report an error as False: a
        # file that is not fetched would be overwritten.
        with contextlib.suppress(FileNotFoundError):
          with buckets.as_os_error(workdir):
            content = (workdir / name).read_bytes()
          (self.path / name).write_bytes(content)
    except OSError:
      self.path.rmtree()
      raise
    self._thread = threading.Thread(target=self._keep_uploading, daemon=True)
    self._thread.start()

  def upload(self) -> None:
    """Copies new content; logs a failure, which the next upload retries."""
    if self._thread is None:
      return
    with self._one_at_a_time:
      error = self._upload()
      if error and not self._error:
        _logger.error(
          "ALARM: the records in %s cannot be written (%s); they wait in %s.",
          self._workdir,
          error.strerror or error,
          self.path,
        )
      if self._error and not error:
        _logger.warning("The records in %s are whole again.", self._workdir)
      self._error = error

  def close(self) -> None:
    """Copies new content for the last time; further calls do nothing.

    Raises:
      OSError: The upload failed; the local files are kept.
    """
    if self._thread is None:
      return
    self._closing.set()
    self._thread.join()
    self.upload()
    self._thread = None
    if self._error:
      raise self._error
    self.path.rmtree()

  def abandon(self) -> None:
    """Stops copying; the local files are kept."""
    if self._thread is None:
      return
    self._closing.set()
    self._thread.join()
    self._thread = None

  def _keep_uploading(self) -> None:
    while not self._closing.wait(self._every_seconds):
      self.upload()

  def _upload(self) -> OSError | None:
    """Returns the error of the first file that could not be copied."""
    for name in _in_order(self.path):
      path = self.path / name
      try:
        status = os.stat(path)
        version = status.st_mtime_ns, status.st_size
        if self._uploaded.get(name) != version:
          buckets.upload(path, self._workdir / name)
          self._uploaded[name] = version
      except OSError as error:
        if path.exists():  # Otherwise it has been renamed.
          return error
    return None


def _in_order(directory: epath.Path) -> list[str]:
  """Lists a directory's files in the order of copying, `_LAST` last."""
  names = []
  for root, directories, files in os.walk(directory):
    directories[:] = [d for d in directories if not d.endswith(_UNFINISHED)]
    inside = os.path.relpath(root, directory)
    names += [os.path.normpath(os.path.join(inside, file)) for file in files]
  names = [name for name in names if not name.endswith(_UNFINISHED)]
  rank = {name: number for number, name in enumerate(_LAST)}
  return sorted(names, key=lambda name: (rank.get(name, -1), name))
