"""Positions of images, texts and classes in tar files in webdataset's format.

Successive files in a tar with the same name up to the first dot of the last
component form an example: an image, its captions as .txt or .json, its class as
.cls or in a field of the .json. Only headers and these small files are read;
nothing is unpacked. `webdataset.source` compares all examples of a dataset and
reports their missing parts.
"""

import io
import json
import math
import tarfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from vit_jax.data import caption_lists, image_formats, index_files
from vit_jax.errors import UserError

# Reasons why a part of an example cannot be used, by number in an index.
PROBLEMS = (
  "",
  "no image",
  "no caption",
  "caption that is no text",
  "empty caption",
  "broken UTF-8",
  "no JSON object",
  "no class",
  "no number",
  "several images that differ after the first dot only",
  "two members of the same extension",
  "a .cls that holds no number of a class",
)
# Fields of a .json with the class, if no other is named. If "cls" is one of
# them, .cls files take precedence.
LABEL_FIELDS = ("label", "cls", "class")
EXAMPLE = np.dtype(
  [
    ("shard", "<i4"),
    ("header", "<i8"),  # Of the first file, with extensions.
    ("header_size", "<i4"),
    ("image", "<i8"),
    ("image_size", "<i8"),
    ("image_header_size", "<i4"),
    ("text", "<i8"),
    ("text_size", "<i8"),
    ("is_json", "?"),
    ("label", "<i4"),  # -1: none; -2: none in its .cls.
    ("number", "<f8"),  # In the field of the .json; NaN: none.
    ("text_problem", "u1"),
    ("has_caption", "?"),
    ("problem", "u1"),  # Of the example as a whole.
  ]
)
# tarfile's own errors, and those raised for sizes of more than 63 bits.
_DAMAGES = (tarfile.TarError, OverflowError, ValueError, MemoryError)
# Changes with the results found in the same files.
VERSION = 2
_SEVERAL, _TWICE, ODD_CLASS = PROBLEMS[-3:]
# First bytes of files compressed by gzip, bzip2, xz and zstd.
_COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")
_BLOCK = 512


def of_shard(
  path: str, number: int, label_fields: tuple[str, ...] = LABEL_FIELDS
) -> tuple[np.ndarray, str]:
  """Finds the examples of a tar file.

  Args:
    path: Path of the file.
    number: Number of the file in the index.
    label_fields: Fields of a .json, the first existing one being the class; a
      .cls takes precedence if "cls" is one of them.

  Returns:
    `EXAMPLE` [n], and a description of the problem with the whole file, or "".
    Examples before a truncation are found.

  Raises:
    UserError: The file cannot be read at all.
  """
  try:
    with index_files.open_file(path) as file:
      size = file.seek(0, 2)
      file.seek(0)
      scan = _Scan(file, number, label_fields)
      problem = _scan(file, size, scan)
  except OSError as error:
    raise UserError(
      f"{path} cannot be read ({error.strerror or error}); fix that, or name"
      " other files."
    ) from None
  examples = np.array(scan.rows, EXAMPLE)
  if not problem and not len(examples):
    problem = "it holds no examples"
  return examples, problem


def member_name(header: bytes) -> str | None:
  """The name in the header of a file, long if extended headers precede it.

  None if it is not a header.
  """
  try:
    with tarfile.open(
      fileobj=io.BytesIO(header), mode="r:", encoding="utf-8"
    ) as tar:
      member = tar.next()
  except _DAMAGES:
    return None
  return member and member.name.encode("utf-8", "replace").decode()


def captions(content: bytes, is_json: bool) -> tuple[tuple[str, ...], str]:
  """The usable captions in a .txt or .json, and the problem, if any."""
  if is_json:
    value, problem = _object(content)
    return ((), problem) if problem else caption_lists.of_object(value)
  try:
    return caption_lists.usable(content.decode("utf-8-sig"))
  except UnicodeDecodeError:
    return (), "broken UTF-8"


def _object(content: bytes) -> tuple[dict[str, Any], str]:
  """The object in a .json, and the problem, if any."""
  try:
    value = json.loads(content.decode("utf-8-sig"))
  except UnicodeDecodeError:
    return {}, "broken UTF-8"
  except (ValueError, RecursionError):
    value = None
  if not isinstance(value, dict):
    return {}, "no JSON object"
  return value, ""


class _Scan:
  """The rows of an index, built file by file."""

  def __init__(
    self, file: io.IOBase, shard: int, label_fields: tuple[str, ...]
  ):
    self.rows: list[tuple[Any, ...]] = []
    self._file = file
    self._shard = shard
    self._label_fields = label_fields
    self._key: str | None = None
    self._parts: dict[str, tarfile.TarInfo] = {}
    self._is_twice = False

  @property
  def is_open(self) -> bool:
    """True within an example that still has no image or no other part."""
    has_image = any(map(_is_image, self._parts))
    has_partner = self._parts.keys() & {"txt", "json", "cls"}
    return bool(self._parts) and not (has_image and has_partner)

  def add(self, member: tarfile.TarInfo) -> None:
    directory, _, name = member.name.rpartition("/")
    stem, _, extension = name.partition(".")
    if not member.isfile() or not stem:
      return
    key = f"{directory}/{stem}"
    if key != self._key:
      self.end()
      self._key = key
    extension = extension.lower()
    self._is_twice |= extension in self._parts
    self._parts.setdefault(extension, member)

  def end(self) -> None:
    """Ends the current example."""
    parts, self._parts = self._parts, {}
    is_twice, self._is_twice = self._is_twice, False
    images = _images(parts)
    texts = [parts[name] for name in ("txt", "json") if name in parts]
    if not images and not texts and "cls" not in parts:  # Such as a licence.
      return
    kept, problem = (), "no caption"
    if texts:
      is_json = texts[0] is not parts.get("txt")
      kept, problem = captions(self._read(texts[0]), is_json)
    image = images[0] if images else None
    first = next(iter(parts.values()))
    value = self._value(parts)
    whole = _SEVERAL if len(images) > 1 else ""
    if is_twice:
      whole = _TWICE
    text = texts[0] if texts else None
    self.rows.append(
      (
        self._shard,
        first.offset,
        _header_size(first),
        image.offset_data if image else 0,
        image.size if image else 0,
        _header_size(image) if image else 0,
        text.offset_data if text else 0,
        text.size if text else 0,
        text is not None and text is not parts.get("txt"),
        self._label(parts, value),
        _number(value),
        PROBLEMS.index(problem),
        bool(kept),
        PROBLEMS.index(whole),
      )
    )

  def _read(self, member: tarfile.TarInfo) -> bytes:
    self._file.seek(member.offset_data)
    return self._file.read(member.size)

  def _value(self, parts: Mapping[str, tarfile.TarInfo]) -> object:
    """The value in the field of the class in a .json; None if there is none."""
    if "json" not in parts:
      return None
    found, _ = _object(self._read(parts["json"]))
    return next((found[k] for k in self._label_fields if k in found), None)

  def _label(self, parts: Mapping[str, tarfile.TarInfo], value: object) -> int:
    """The class of an example; -1 for none, -2 for none in its .cls."""
    if "cls" in parts and "cls" in self._label_fields:
      content = self._read(parts["cls"]).strip()
      return int(content) if content.isdigit() and len(content) < 10 else -2
    # Any other content under such a name is not a class.
    return value if type(value) is int and 0 <= value < 10**9 else -1


def _header_size(member: tarfile.TarInfo) -> int:
  """Bytes of the header of a file; names beyond 2 GiB are omitted."""
  size = member.offset_data - member.offset
  return size if size < 2**31 else _BLOCK


def _number(value: object) -> float:
  """A number to predict; NaN if it is not a number."""
  if type(value) not in (int, float):
    return math.nan
  try:
    number = float(value)
  except OverflowError:
    return math.nan
  return number if math.isfinite(number) else math.nan


def _images(
  parts: Mapping[str, tarfile.TarInfo],
) -> list[tarfile.TarInfo]:
  """The image among files by extension, or all candidates.

  An extension such as 'jpg' takes precedence over one such as 'depth.png',
  which may be something else. Among several such, the first in
  `image_formats.SUFFIXES` is used.
  """
  for suffix in image_formats.SUFFIXES:
    if found := parts.get(suffix[1:]):
      return [found]
  return [part for name, part in parts.items() if _is_image(name)]


def _is_image(extension: str) -> bool:
  return f".{extension}".endswith(image_formats.SUFFIXES)


def _scan(file: io.IOBase, size: int, scan: _Scan) -> str:
  """Adds the files of a tar to a scan; returns the problem with the tar."""
  if not size:
    return "it is empty"
  try:
    tar = tarfile.open(fileobj=file, mode="r:")
  except tarfile.ReadError:
    file.seek(0)
    if file.read(8).startswith(_COMPRESSED):
      return (
        "it is compressed; decompress it, as its examples are read by place"
      )
    return "it is not a tar file"
  except _DAMAGES:
    return "it is damaged at byte 0 after 0 examples; copy it again"
  end = size
  try:
    with tar:
      while (member := tar.next()) is not None:
        tar.members.clear()  # They would stay in memory.
        if member.size < 0 or member.offset_data + member.size > size:
          break
        scan.add(member)
      end = tar.offset
  except tarfile.ReadError:
    pass
  except _DAMAGES:
    end = tar.offset
  # A tar ends with blocks of zeros; tarfile treats any damage as the end.
  file.seek(min(end, size))
  after = file.read(_BLOCK)
  is_whole = len(after) == _BLOCK and not any(after)
  if is_whole or not scan.is_open:
    scan.end()
  if is_whole:
    return ""
  what = f"damaged at byte {end}" if len(after) == _BLOCK else "cut off"
  return f"it is {what} after {len(scan.rows)} examples; copy it again"
