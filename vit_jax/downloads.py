"""Downloads over HTTP that resume after interruptions and are verified."""

import base64
import contextlib
import dataclasses
import fcntl
import hashlib
import http.client
import logging
import os
import pathlib
import queue
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import BinaryIO

from vit_jax import records

_SECONDS = 10.0  # Timeout to connect, and between pieces of a response.
_ATTEMPTS = 3  # Consecutive ones without progress.
# Statuses that ask to retry later, in addition to server errors.
_PASSING = (
  http.client.REQUEST_TIMEOUT,
  http.client.TOO_MANY_REQUESTS,
)
_PAUSE_SECONDS = 0.5
_PIECE = 1 << 20
# Longer than any pause in the writes of a running download.
_LEFT_SECONDS = 600.0
_TELL_SECONDS = 10.0
_MD5 = re.compile(r"md5=([\w+/]+={0,2})", re.ASCII)
_logger = logging.getLogger(__name__)


class DownloadError(Exception):
  """A file is unavailable; the message is the reason, without the address.

  Attributes:
    status: HTTP status of a refusal; None without one.
  """

  def __init__(self, reason: str, status: int | None = None):
    super().__init__(reason)
    self.status = status


class _Cut(Exception):  # noqa: N818
  """The connection broke before the end; another may fetch the rest.

  Attributes:
    is_answered: True if the server responds, so that a later attempt may
      succeed.
  """

  def __init__(self, reason: str, is_answered: bool = False):
    super().__init__(reason)
    self.is_answered = is_answered


@contextlib.contextmanager
def arriving(path: pathlib.Path) -> Iterator[pathlib.Path]:
  """Yields a file that replaces `path` once it is complete.

  Files left in its directory by killed downloads are removed: those that are
  not locked and were not written to for ten minutes. Neither condition suffices
  alone: a process may be stopped for long, and storage shared by several
  machines may not share their locks.

  Args:
    path: File in an existing directory that contains only downloads.

  Raises:
    OSError: The file cannot be written.
  """
  with records.replacing(path) as partial, open(partial, "wb") as file:
    with contextlib.suppress(OSError):  # Some storage has no locks.
      fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    # The clock of the storage, which may differ from ours.
    now = os.fstat(file.fileno()).st_mtime
    for other in path.parent.glob(".*.partial"):
      with contextlib.suppress(OSError):
        if other.stat().st_mtime < now - _LEFT_SECONDS:
          _remove_unless_held(other)
    yield pathlib.Path(partial)


def _remove_unless_held(path: pathlib.Path) -> None:
  with open(path, "r+b") as file:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    path.unlink()


def fetch(url: str, path: pathlib.Path) -> None:
  """Downloads a file, reconnecting after broken connections.

  Args:
    url: Address, http or https. If the response has the MD5 of the file, as
      from Google Cloud Storage, the download is checked against it.
    path: File to write or overwrite. Unless this function returns, it may be
      incomplete.

  Raises:
    DownloadError: There is no such file or no connection, or the download
      differs from the server's description.
    OSError: The file cannot be written.
  """
  _logger.info("Fetching %s.", url)
  most, idle = 0, 0
  with open(path, "w+b") as file:
    transfer = _Transfer(url, file)
    while True:
      try:
        transfer.receive()
        break
      except _Cut as error:
        idle = 0 if file.tell() > most else idle + 1
        most = max(most, file.tell())
        has_begun = file.tell() > 0 or error.is_answered
        if not has_begun or idle == _ATTEMPTS:
          raise DownloadError(str(error)) from None
        _logger.warning(
          "The connection broke (%s); reconnecting at %s.",
          error,
          _mib(file.tell()),
        )
        time.sleep(_PAUSE_SECONDS)
    if transfer.md5 is not None and transfer.md5 != _md5_of(file):
      raise DownloadError("what came differs from the server's checksum")


@dataclasses.dataclass
class _Transfer:
  """A file being downloaded, and the server's description of it.

  Attributes:
    url: Address of the file.
    file: Part downloaded so far.
    tag: ETag, which changes with the content; None if not sent.
    md5: MD5 in base64; None if not sent.
  """

  url: str
  file: BinaryIO
  tag: str | None = None
  md5: str | None = None

  def receive(self) -> None:
    """Writes the rest, or all of it if the file changed or has no ranges."""
    headers = {"Accept-Encoding": "identity"}
    start = self.file.tell()
    if start:
      headers["Range"] = f"bytes={start}-"
      if self.tag:
        headers["If-Range"] = self.tag
    request = urllib.request.Request(self.url, headers=headers)
    with _opened(request) as response:
      if response.status != http.client.PARTIAL_CONTENT:
        self.file.seek(0)
        self.file.truncate()
        start = 0
      self.tag = response.headers.get("ETag")
      hashes = ",".join(response.headers.get_all("x-goog-hash") or ())
      md5 = _MD5.search(hashes)
      self.md5 = md5 and md5[1]
      length = response.headers.get("Content-Length")
      if length is None:
        raise DownloadError("the server does not tell how long it is")
      total = start + int(length)
      told = time.monotonic()
      for piece in _pieces(response):
        self.file.write(piece)
        if time.monotonic() > told + _TELL_SECONDS:
          told = time.monotonic()
          _logger.info("%s of %s.", _mib(self.file.tell()), _mib(total))
      if self.file.tell() < total:
        raise _Cut(f"{self.file.tell()} of {total} bytes came")


def _opened(request: urllib.request.Request) -> http.client.HTTPResponse:
  """Connects and returns the response once its head has arrived.

  A socket's timeout applies to one address; resolving a name takes additional
  time and may give many addresses.
  """
  answers: queue.SimpleQueue = queue.SimpleQueue()

  def work() -> None:
    try:
      answers.put(urllib.request.urlopen(request, timeout=_SECONDS))
    except Exception as error:
      answers.put(error)

  threading.Thread(target=work, daemon=True).start()
  try:
    answer = answers.get(timeout=_SECONDS)
  except queue.Empty:
    raise _Cut(f"no answer in {_SECONDS:g} s") from None
  if isinstance(answer, urllib.error.HTTPError):
    with answer:
      reason = f"the server answers {answer.code} {answer.reason}".rstrip()
    if (
      answer.code in _PASSING
      or answer.code >= http.client.INTERNAL_SERVER_ERROR
    ):
      raise _Cut(reason, is_answered=True)
    raise DownloadError(reason, answer.code)
  if isinstance(answer, OSError | http.client.HTTPException):
    raise _Cut(_reason(answer))
  if isinstance(answer, Exception):
    raise DownloadError(_reason(answer))
  return answer


def _pieces(response: http.client.HTTPResponse) -> Iterator[bytes]:
  while True:
    try:
      piece = response.read1(_PIECE)
    except (OSError, http.client.HTTPException) as error:
      raise _Cut(_reason(error)) from None
    if not piece:
      return
    yield piece


def _reason(error: Exception) -> str:
  """Describes the cause of an error in a few words."""
  inner = getattr(error, "reason", None) or error
  if isinstance(inner, TimeoutError):
    return f"no answer in {_SECONDS:g} s"
  if isinstance(inner, OSError) and inner.strerror:
    return inner.strerror
  return " ".join(str(inner).split()) or type(inner).__name__


def _md5_of(file: BinaryIO) -> str:
  file.seek(0)
  digest = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False))
  return base64.b64encode(digest.digest()).decode()


def _mib(count: int) -> str:
  return f"{count / 2**20:.0f} MiB"
