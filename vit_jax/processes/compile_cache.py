"""Compiled programs are kept on disk: a second start does not compile again.

It is jax's persistent cache with our own storage of entries. jax's storage
writes them in place, so that a kill leaves a truncated entry that is never
replaced; verifies none of them when read; and needs the package `filelock` to
bound their total size (`jax_compilation_cache_max_size`).
"""

import logging
import os
import pathlib
import uuid
import zlib

import jax

from vit_jax import cache_directory
from vit_jax.errors import UserError
from vit_jax.processes import agreement, jax_private

LIMIT = "VIT_JAX_COMPILE_CACHE_GIB"
_DEFAULT_GIB = 4.0
_CRC_BYTES = 4
_logger = logging.getLogger(__name__)


def enable() -> None:
  """Keeps what this process compiles, and uses what is kept.

  In $XDG_CACHE_HOME/vit_jax/compiled (~/.cache/vit_jax/compiled), of at most 4
  GiB or what VIT_JAX_COMPILE_CACHE_GIB says; 0: not at all. Where
  JAX_COMPILATION_CACHE_DIR is set, jax's own storage is used.
  Processes on several hosts use it only if they share the directory: jax lets
  process 0 alone write, and where it did not compile as the others do, they
  might wait for it. To be called by all processes.

  Raises:
    UserError: The limit is not a number.
  """
  limit = _limit_bytes()
  if jax.config.jax_compilation_cache_dir or not limit:
    return
  path = cache_directory.path() / "compiled"
  if not _all_see(path):
    if jax.process_index() == 0:
      _logger.warning(
        "%s cannot be written to, or is not the same on all hosts: every start"
        " compiles. JAX_COMPILATION_CACHE_DIR names another directory.",
        path,
      )
    return
  jax.config.update("jax_compilation_cache_dir", str(path))
  jax_private.use_compilation_cache(Cache(path, limit))


class Cache(jax_private.CacheInterface):
  """Files of a directory, each written whole, sealed by a CRC-32.

  Args:
    path: Existing directory of the cache.
    limit: Bytes of all files together; those least recently used are removed
      first.
  """

  def __init__(self, path: pathlib.Path, limit: int):
    self._path = path
    self._limit = limit

  def get(self, key: str) -> bytes | None:
    """Value stored under `key`; None if it is missing or damaged."""
    file = self._path / key
    try:
      sealed = file.read_bytes()
    except FileNotFoundError:
      return None
    value, seal = sealed[:-_CRC_BYTES], sealed[-_CRC_BYTES:]
    if zlib.crc32(value).to_bytes(_CRC_BYTES, "big") != seal:
      _logger.warning("%s is damaged and is compiled again.", file)
      file.unlink(missing_ok=True)
      return None
    os.utime(file)
    return value

  def put(self, key: str, value: bytes) -> None:
    """Keeps `value`, and removes others if that is too much."""
    if len(value) + _CRC_BYTES > self._limit:
      return
    file = self._path / key
    partial = file.with_name(f"{key}.{uuid.uuid4().hex}.partial")
    try:
      seal = zlib.crc32(value).to_bytes(_CRC_BYTES, "big")
      partial.write_bytes(value + seal)
      partial.replace(file)
    finally:
      partial.unlink(missing_ok=True)
    self._trim(keep=file)

  def _trim(self, keep: pathlib.Path) -> None:
    """Removes old entries; another process may be removing the same ones."""
    found = []
    for file in self._path.iterdir():
      try:
        found.append((file.stat().st_mtime_ns, file.stat().st_size, file))
      except FileNotFoundError:
        continue
    total = sum(size for _, size, _ in found)
    for _, size, file in sorted(found):
      if total <= self._limit:
        return
      if file != keep:
        file.unlink(missing_ok=True)
        total -= size


def _limit_bytes() -> int:
  text = os.environ.get(LIMIT, str(_DEFAULT_GIB))
  try:
    limit = int(float(text) * 2**30)
  except (ValueError, OverflowError):
    limit = -1
  if limit < 0:
    raise UserError(
      f"The environment variable {LIMIT} = {text!r} must be a number of GiB,"
      " such as 4, or 0 for no cache."
    )
  return limit


def _all_see(path: pathlib.Path) -> bool:
  """Tests if `path` is writable and one directory for all processes."""
  mark = path / f"{uuid.uuid4().hex}.partial"
  try:
    # Entries are code: a user who may write there could run theirs as us.
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    mark.touch()
  except OSError:
    said = ""
  else:
    said = mark.name
  try:
    first = agreement.gather(said)[0]
    sees = bool(first) and (path / first).exists()
    return all(agreement.gather("yes" * sees))
  finally:
    if said:
      mark.unlink(missing_ok=True)
