"""Records of a run: JSON lines and JSON files in a workdir.

`metrics.jsonl` has one object per line, with `step` and flat metric names.
Lines are written in the order of the steps, so that everything up to a
checkpoint's step exists before the checkpoint does.
"""

import contextlib
import json
import logging
import math
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from etils import epath

from vit_jax import buckets
from vit_jax.errors import UserError

_logger = logging.getLogger(__name__)
_unfinished: set[epath.Path] = set()


def in_order(metric: str) -> tuple[str | int, ...]:
  """Returns a key that sorts numbers by value: 5shot before 10shot."""
  parts = re.split(r"(\d+)", metric)
  return tuple(int(part) if i % 2 else part for i, part in enumerate(parts))


class MetricsFile:
  """Appends to a `metrics.jsonl`, writing each line at once.

  The file is local; `rundir.bucket_upload` copies it to a bucket. A line that
  cannot be written, for example on a full disk, is written with the next one.

  Args:
    path: File, created on the first write.
    last_step: Step that the run resumes from; later lines, and a last line
      truncated by a kill, are removed.
  """

  def __init__(self, path: epath.PathLike, *, last_step: int):
    self._path = epath.Path(path)
    lines = read_lines(self._path) if self._path.exists() else []
    kept = [line for line in lines if line["step"] <= last_step]
    self._written = names(kept)
    text = "".join(json.dumps(_plain(line)) + "\n" for line in kept)
    if self._path.exists() and (before := _text(self._path)) != text:
      _warn_of_lost_lines(self._path, before, last_step)
      write_text(self._path, text)
    self._file = open(self._path, "ab", buffering=0)  # noqa: SIM115
    self._waiting = b""

  def write(self, step: int, metrics: Mapping[str, float | int]) -> None:
    """Adds a line; NaN and infinity become null, as JSON has neither."""
    line = {"step": step, **metrics}
    self._written.update((step, name) for name in metrics)
    was_waiting = bool(self._waiting)
    self._waiting += json.dumps(_plain(line)).encode() + b"\n"
    try:
      self._write_waiting()
    except OSError as error:
      if not was_waiting:
        _logger.error(
          "ALARM: %s cannot be written (%s); its lines wait in memory.",
          self._path,
          error.strerror,
        )

  def _write_waiting(self) -> None:
    size = os.fstat(self._file.fileno()).st_size
    written = 0
    try:
      while written < len(self._waiting):
        written += self._file.write(self._waiting[written:])
    except OSError:
      self._file.truncate(size)
      raise
    self._waiting = b""

  def has_any(self, step: int, prefixes: tuple[str, ...]) -> bool:
    """Returns True if a metric with such a prefix was recorded at `step`."""
    return has_any(self._written, step, prefixes)

  def close(self) -> None:
    """Raises OSError if there are lines that cannot be written."""
    try:
      self._write_waiting()
    finally:
      self._file.close()


def names(lines: Iterable[Mapping[str, Any]]) -> set[tuple[int, str]]:
  """Returns the step and the name of each metric in lines."""
  return {(line["step"], name) for line in lines for name in line}


def has_any(
  written: Iterable[tuple[int, str]], step: int, prefixes: tuple[str, ...]
) -> bool:
  """Tells if metrics have one of `step` whose name has such a prefix."""
  return any(s == step and n.startswith(prefixes) for s, n in written)


def _warn_of_lost_lines(path: epath.Path, text: str, last_step: int) -> None:
  """Warns about damaged lines that a kill cannot have truncated.

  Lines up to a checkpoint's step were complete before it was written.
  """
  for number, line in enumerate(text.splitlines(), 1):
    found = re.match(r'{"step": (\d+), ', line)
    if found and int(found[1]) <= last_step and _parsed(line) is None:
      _logger.warning(
        "%s: line %d, of step %s, was cut by something other than this run and"
        " is left out: %.200s",
        path,
        number,
        found[1],
        line,
      )


def _text(path: epath.Path) -> str:
  return path.read_bytes().decode(errors="replace")


def _parsed(text: str) -> dict[str, Any] | None:
  """Parses a line's object; None if it is truncated or foreign."""
  try:
    line = json.loads(text)
  except json.JSONDecodeError:
    return None
  is_ours = isinstance(line, dict) and isinstance(line.get("step"), int)
  return line if is_ours else None


def read_lines(path: epath.PathLike) -> list[dict[str, Any]]:
  """Reads a JSONL file; skips truncated or foreign lines."""
  texts = _text(epath.Path(path)).splitlines()
  return [line for text in texts if (line := _parsed(text)) is not None]


def read_json(path: epath.PathLike) -> dict[str, Any]:
  """Reads a JSON file's object; {} if there is none that can be read."""
  try:
    value = json.loads(epath.Path(path).read_text())
  except (OSError, ValueError):
    return {}
  return value if isinstance(value, dict) else {}


def write_json(path: epath.PathLike, value: Mapping[str, Any]) -> None:
  """Writes a JSON file that is never seen partially written."""
  write_text(path, json.dumps(_plain(value), indent=2) + "\n")


def write_text(path: epath.PathLike, text: str) -> None:
  """Writes a text file that is never seen partially written."""
  with replacing(path) as partial:
    partial.write_text(text)


@contextlib.contextmanager
def replacing(path: epath.PathLike) -> Iterator[epath.Path]:
  """Yields a file that replaces `path` once it is written.

  If the block raises, `path` is unchanged and nothing is left next to it. For a
  bucket, where files cannot be renamed, the file is local and copied at the
  end.

  Args:
    path: File in an existing directory; replaced if it exists.

  Raises:
    OSError: The file cannot be written.
  """
  path = epath.Path(path)
  if buckets.is_bucket(path):
    with buckets.local(path) as file:
      yield file
    return
  with _partial(path) as partial:
    yield partial
    partial.replace(path)


@contextlib.contextmanager
def _partial(path: epath.Path) -> Iterator[epath.Path]:
  """Yields a name next to `path`; removes what has it if the block raises."""
  # Two processes, even on two hosts, may write the same file: the later one
  # wins, and the file is complete.
  partial = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.partial")
  _unfinished.add(partial)
  try:
    yield partial
  except BaseException:
    _remove(partial)
    raise
  finally:
    _unfinished.discard(partial)


def _remove(path: epath.Path) -> None:
  if path.is_dir():
    path.rmtree(missing_ok=True)
  else:
    path.unlink(missing_ok=True)


def discard_unfinished() -> None:
  """Removes files and directories that are half written, before an exit."""
  for path in tuple(_unfinished):
    with contextlib.suppress(OSError):
      _remove(path)


def _plain(value: Any) -> Any:
  if isinstance(value, Mapping):
    return {name: _plain(item) for name, item in value.items()}
  if isinstance(value, (list, tuple)):
    return [_plain(item) for item in value]
  if isinstance(value, float) and not math.isfinite(value):
    return None
  return value


@contextlib.contextmanager
def new_directory(directory: epath.Path) -> Iterator[epath.Path]:
  """Yields a directory that appears at a path once complete, or not at all.

  Raises:
    UserError: The path exists, or cannot be written to.
  """
  try:
    if directory.exists():
      raise UserError(
        f"{directory} exists, and nothing is overwritten; remove it, or name"
        " another."
      )
    if buckets.is_bucket(directory):
      with buckets.local(directory) as made:
        made.mkdir()
        yield made
      return
    with _partial(directory) as partial:
      partial.mkdir(parents=True)
      yield partial
      partial.rename(directory)
  except OSError as error:
    raise UserError(
      f"{directory} cannot be written ({error.strerror or error})."
    ) from None
