"""Paths in buckets, such as gs://BUCKET/runs/first.

A bucket contains whole objects under names. An object appears at once when it
is completely written; objects cannot be appended to or renamed, and there are
no directories, only names with common prefixes.
"""

import contextlib
import errno
import functools
import logging
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from etils import epath

from vit_jax.errors import UserError

# A storage that is silent for so long is unreachable.
FIRST_ANSWER_SECONDS = 8
# The longest outage that a run waits for before it starts.
OUTAGE_SECONDS = 300
_logger = logging.getLogger(__name__)


def is_bucket(path: epath.PathLike) -> bool:
  """Tells whether a path is in a bucket of any provider."""
  return "://" in os.fspath(path)


def check(path: epath.PathLike, *, outage_seconds: int = 0) -> None:
  """Raises UserError if a path's package is missing or its storage is silent.

  Args:
    path: Path in a bucket, or on a file system, which always passes.
    outage_seconds: Time during which a silent storage is retried.
  """
  if not os.fspath(path).startswith("gs://"):
    return
  import fsspec

  # Its errors reach us, so they need not be logged with tracebacks too.
  logging.getLogger("gcsfs").setLevel(logging.CRITICAL)
  try:
    fsspec.get_filesystem_class("gcs")
  except ImportError:
    raise UserError(
      f"{path} is in a bucket, which needs the package gcsfs: run `pip install"
      " gcsfs`, or give a path on a file system."
    ) from None
  bucket = os.fspath(path).removeprefix("gs://").partition("/")[0]
  until, is_told = time.monotonic() + outage_seconds, False
  while True:
    try:
      return _reach(bucket)
    except UserError:
      if time.monotonic() >= until:
        raise
    if not is_told:
      _logger.warning(
        "gs://%s does not answer; asking again for up to %d seconds.",
        bucket,
        outage_seconds,
      )
      is_told = True


@functools.cache
def _reach(bucket: str) -> None:
  """Waits for a first answer of any kind.

  Without a network, gcsfs requests credentials, the kind of the bucket and
  objects, each many times, for two minutes. So a request without credentials is
  made first. Only this one is bounded, not those after an answer. gcsfs does
  not treat statuses such as 503 as an answer, and retries.

  Raises:
    UserError: There is no answer within FIRST_ANSWER_SECONDS.
  """
  import fsspec

  storage = fsspec.filesystem("gcs", token="anon")
  try:
    storage.call("GET", "b/{}", bucket, timeout=FIRST_ANSWER_SECONDS)
  except TimeoutError:
    raise UserError(
      f"gs://{bucket} cannot be reached: Google's storage has not answered for"
      f" {FIRST_ANSWER_SECONDS} seconds. Check the network and its proxy, or"
      " give a path on a file system."
    ) from None
  except Exception as error:  # A refusal is an answer too.
    _logger.debug("gs://%s answers without credentials: %s", bucket, error)


def check_workdir(path: epath.PathLike, *, outage_seconds: int = 0) -> None:
  """Like `check`; also rejects files, and names that cannot be written to."""
  try:
    os.fspath(path).encode()
  except UnicodeEncodeError:
    raise UserError(
      f"The workdir {path} has letters that this locale does not know, so that"
      " checkpoints could not be written there; set PYTHONUTF8=1, or give a"
      " name of ASCII letters with --workdir."
    ) from None
  if is_bucket(path) and not os.fspath(path).startswith("gs://"):
    raise UserError(
      f"The workdir {path} is in a bucket that checkpoints cannot be written"
      " to; give one of gs://, or a directory."
    )
  if not is_bucket(path) and os.path.isfile(path):
    raise UserError(
      f"The workdir {path} is a file; give a directory with --workdir."
    )
  check(path, outage_seconds=outage_seconds)


def absolute(path: epath.PathLike) -> epath.Path:
  """Returns an absolute path; etils treats a bucket as a relative path."""
  path = epath.Path(path)
  return path if is_bucket(path) else path.resolve()


@contextlib.contextmanager
def as_os_error(path: epath.PathLike) -> Iterator[None]:
  """Converts errors of a bucket's libraries to OSError with one line."""
  try:
    yield
  except UserError:
    raise
  except OSError as error:
    if is_bucket(path) and not error.strerror:
      raise _os_error(error) from error
    raise
  except Exception as error:
    if not is_bucket(path):
      raise
    raise _os_error(error) from error


def _os_error(error: Exception) -> OSError:
  if isinstance(error, FileNotFoundError):
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
  words = " ".join(str(error).split()) or type(error).__name__
  return OSError(errno.EIO, words[:300])


def upload(source: epath.PathLike, target: epath.PathLike) -> None:
  """Copies a local file to an object; raises OSError."""
  with as_os_error(target), open(source, "rb") as file:
    with epath.Path(target).open("wb") as stream:
      shutil.copyfileobj(file, stream, 16 << 20)


def upload_all(source: epath.PathLike, target: epath.PathLike) -> None:
  """Copies all files below a local directory; raises OSError."""
  for path in files(epath.Path(source)):
    upload(path, epath.Path(target) / path.relative_to(source))


def files(directory: epath.Path) -> Iterator[epath.Path]:
  """Yields all files below a directory, in order of their names.

  Errors of the storage are raised; `is_dir` would return an answer instead.
  """
  for path in sorted(directory.iterdir()):
    if status(path).is_directory:
      yield from files(path)
    else:
      yield path


class Status(NamedTuple):
  """Kind, size and modification time of a path.

  Attributes:
    is_directory: True if there are names below it.
    size: Size of a file, bytes.
    changed: Modification time, seconds since 1970.
  """

  is_directory: bool
  size: int
  changed: int


def status(path: epath.PathLike) -> Status:
  """Like `epath.Path.stat`, but also works for owners without a name.

  etils looks up the owner's name and fails without one; in a container started
  as any user (`docker run --user`) or on NFS there may be none.
  """
  if is_bucket(path):
    found = epath.Path(path).stat()
    return Status(found.is_directory, found.length, int(found.mtime))
  here = os.stat(path)
  return Status(stat.S_ISDIR(here.st_mode), here.st_size, int(here.st_mtime))


def move(
  source: epath.Path, target: epath.Path, *, first: Iterable[str] = ()
) -> None:
  """Moves a directory of a bucket, object by object, to an unused name.

  Everything is copied before anything is removed; names in `first` are removed
  first.
  """
  with as_os_error(source):
    for path in files(source):
      copy = target / path.relative_to(source)
      path.copy(copy, overwrite=True)
    for name in first:
      (source / name).unlink(missing_ok=True)
    source.rmtree()


@contextlib.contextmanager
def local(path: epath.PathLike) -> Iterator[epath.Path]:
  """Yields a local path, copied to `path` on success.

  A file or a directory can be created there; OSError if it cannot be copied.
  """
  with tempfile.TemporaryDirectory(prefix="vit_jax-") as directory:
    made = epath.Path(directory) / epath.Path(path).name
    yield made
    if made.is_dir():
      upload_all(made, path)
    else:
      upload(made, path)
