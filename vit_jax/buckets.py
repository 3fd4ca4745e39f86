"""Paths in buckets, such as gs://BUCKET/runs/first.

A bucket holds whole objects under names. An object appears at once when all of
it is written; nothing can be appended to or renamed, and there are no
directories, only names that begin alike.
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

# A storage that has not said anything for so long is out of reach.
FIRST_ANSWER_SECONDS = 8
# The longest outage that a run waits for before it begins.
OUTAGE_SECONDS = 300
_logger = logging.getLogger(__name__)


def is_bucket(path: epath.PathLike) -> bool:
  """Tests if a path is in a bucket, of any provider."""
  return "://" in os.fspath(path)


def check(path: epath.PathLike, *, outage_seconds: int = 0) -> None:
  """Raises UserError if a path's package is missing or its storage silent.

  Args:
    path: In a bucket, or on a file system, where all is well.
    outage_seconds: Time for which a silent storage is asked again.
  """
  if not os.fspath(path).startswith("gs://"):
    return
  import fsspec

  # Its errors reach us, and need not be printed with their traces too.
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
  """Waits for a first answer, whichever it is.

  Without a network, gcsfs asks for credentials, for the kind of the bucket and
  for objects, each many times, for two minutes. So it is asked without
  credentials first. Only that is bounded, not what follows an answer. Statuses
  such as 503 are no answer to gcsfs, which tries again.

  Raises:
    UserError: None has come in FIRST_ANSWER_SECONDS.
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
  """Like `check`, and refuses files and buckets of another kind than gs://."""
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
  """A path from the root; etils takes a bucket for a relative path."""
  path = epath.Path(path)
  return path if is_bucket(path) else path.resolve()


@contextlib.contextmanager
def as_os_error(path: epath.PathLike) -> Iterator[None]:
  """Turns errors of a bucket's libraries into OSError with one line."""
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
  """Copies a file of this machine to an object; raises OSError."""
  with as_os_error(target), open(source, "rb") as file:
    with epath.Path(target).open("wb") as stream:
      shutil.copyfileobj(file, stream, 16 << 20)


def upload_all(source: epath.PathLike, target: epath.PathLike) -> None:
  """Copies all files below a directory of this machine; raises OSError."""
  for path in files(epath.Path(source)):
    upload(path, epath.Path(target) / path.relative_to(source))


def files(directory: epath.Path) -> Iterator[epath.Path]:
  """All files below a directory, in order of their names.

  An error of the storage leaves it; `is_dir` would take one for an answer.
  """
  for path in sorted(directory.iterdir()):
    if status(path).is_directory:
      yield from files(path)
    else:
      yield path


class Status(NamedTuple):
  """Kind, size and time of change of a path.

  Attributes:
    is_directory: There are names below it.
    size: Bytes of a file.
    changed: Seconds since 1970.
  """

  is_directory: bool
  size: int
  changed: int


def status(path: epath.PathLike) -> Status:
  """Like `epath.Path.stat`, for files of owners without a name too.

  etils looks up the name of the owner and fails without one; in a container
  started as any user (`docker run --user`) or on NFS there may be none.
  """
  if is_bucket(path):
    found = epath.Path(path).stat()
    return Status(found.is_directory, found.length, int(found.mtime))
  here = os.stat(path)
  return Status(stat.S_ISDIR(here.st_mode), here.st_size, int(here.st_mtime))


def move(
  source: epath.Path, target: epath.Path, *, first: Iterable[str] = ()
) -> None:
  """Moves a directory of a bucket, object by object, to a name that is free.

  All is copied before anything is removed, names in `first` before the others.
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
  """A path on this machine, copied to `path` if all goes well.

  A file or a directory may be made there; OSError: it cannot be copied.
  """
  with tempfile.TemporaryDirectory(prefix="vit_jax-") as directory:
    made = epath.Path(directory) / epath.Path(path).name
    yield made
    if made.is_dir():
      upload_all(made, path)
    else:
      upload(made, path)
