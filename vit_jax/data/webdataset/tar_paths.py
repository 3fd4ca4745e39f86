"""Patterns of tar files: braces, '*' and '?'."""

import glob
import os
import posixpath
import re
from collections.abc import Sequence

from etils import epath

from vit_jax import buckets
from vit_jax.errors import UserError

_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d{1,9})\.\.(\d{1,9})")
_WILD = re.compile(r"[*?]")
_MAX_FILES = 100_000


def expand(arguments: str) -> list[str]:
  """Lists the files that a pattern names, without searching for them.

  '*' and '?' are kept.

  Raises:
    UserError: It is not a pattern of tar files.
  """
  files = [arguments]
  while any(map(_BRACES.search, files)):
    found = []
    for file in files:
      found += _expanded(file, arguments)
      if len(found) > _MAX_FILES:  # Before there are too many for memory.
        raise UserError(
          f"webdataset:{arguments} names more than {_MAX_FILES} files; name"
          " fewer."
        )
    files = found
  wrong = [file for file in files if not file.endswith(".tar")]
  if wrong or set("{}") & set("".join(files)):
    raise UserError(
      f"webdataset:{arguments} does not name tar files; write one, or several"
      " as in 'webdataset:shards/cc3m-{000..331}.tar'. Compressed ones cannot"
      " be read at random: unpack the compression."
    )
  return files


def find(names: Sequence[str], data_dir: str | None, shown: str) -> list[str]:
  """Finds the paths of files; those matching '*' and '?' are sorted.

  A '~' at the start of a name is the home directory.

  Raises:
    UserError: No file matches a pattern, or a bucket cannot be listed.
  """
  found = []
  for name in map(os.path.expanduser, names):
    path = _path(name, data_dir)
    if not _WILD.search(name):
      found.append(path)
      continue
    if buckets.is_bucket(path):
      start, _, rest = path.partition("://")
      bucket, _, pattern = rest.partition("/")
      root = epath.Path(f"{start}://{bucket}")
      matching = _matching(root, _escaped(pattern), f"{shown}: {path}")
    else:
      root = "" if path == name else path[: -len(name)]
      matching = glob.glob(f"{glob.escape(root)}{_escaped(name)}")
    if not matching:
      raise UserError(
        f"{shown}: there is no file {path}; name others, or another --data_dir."
      )
    found += sorted(matching)
  return found


def _matching(root: epath.Path, pattern: str, shown: str) -> list[str]:
  """The objects of a bucket that match a pattern."""
  try:
    with buckets.as_os_error(root):
      return [os.fspath(file) for file in root.glob(pattern)]
  except FileNotFoundError:
    return []
  except OSError as error:
    raise UserError(
      f"{shown} cannot be listed ({error.strerror or error}); fix that and"
      " start again."
    ) from None


def _escaped(pattern: str) -> str:
  """Escapes brackets in a glob, as they are literal."""
  return pattern.replace("[", "[[]")


def _path(name: str, data_dir: str | None) -> str:
  if data_dir is None or buckets.is_bucket(name) or os.path.isabs(name):
    return name
  return posixpath.join(os.fspath(epath.Path(data_dir).expanduser()), name)


def _expanded(file: str, pattern: str) -> list[str]:
  """Replaces the first braces with each of the texts that they stand for."""
  braces = _BRACES.search(file)
  if braces is None:
    return [file]
  texts = braces[1].split(",")
  if limits := _RANGE.fullmatch(braces[1]):
    first, last = int(limits[1]), int(limits[2])
    if last - first >= _MAX_FILES or last < first:
      raise UserError(
        f"webdataset:{pattern}: {braces[0]} does not count up to at most"
        f" {_MAX_FILES} files; write it as {{000..331}}."
      )
    texts = [f"{i:0{len(limits[1])}d}" for i in range(first, last + 1)]
  return [file[: braces.start()] + t + file[braces.end() :] for t in texts]
