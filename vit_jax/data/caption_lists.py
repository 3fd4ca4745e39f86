"""Reads lists of images and captions line by line: CSV and JSON lines.

A CSV file begins with the names of its columns, including one in `_IMAGE` and
one in `_CAPTION`; if that line has tabs, they separate the columns. A line of
JSON is an object with such keys; its captions may be a list.
"""

import csv
import dataclasses
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from etils import epath

from vit_jax.errors import UserError

SUFFIXES = (".csv", ".tsv", ".jsonl")
_IMAGE = ("file_name", "image", "filepath")
_CAPTION = ("caption", "captions", "text", "title")


@dataclasses.dataclass(frozen=True)
class Row:
  """One line of a list.

  Attributes:
    line: Number of its first line in the file, from 1.
    image: Path of the image as written; None if there is none.
    captions: Usable captions.
    problem: Description of the problem with the line; empty if there is none.
  """

  line: int
  image: str | None
  captions: tuple[str, ...]
  problem: str


def read(path: str) -> Iterator[Row]:
  """Reads the rows of a list, skipping empty lines.

  Raises:
    UserError: The file cannot be read, or is not a list of images and captions.
  """
  try:
    content = epath.Path(path).read_bytes()
  except OSError as error:
    raise UserError(
      f"{path} cannot be read ({error.strerror or error}); fix that, or name"
      " another folder."
    ) from None
  rows = _json_rows if path.endswith(".jsonl") else _csv_rows
  return rows(path, content)


def usable(captions: Any) -> tuple[tuple[str, ...], str]:
  """The usable captions, and the problem with the others.

  Args:
    captions: One string or a list of them.
  """
  if isinstance(captions, str):
    captions = [captions]
  if captions is None or captions == []:
    return (), "no caption"
  if not isinstance(captions, Sequence):
    return (), "caption that is no text"
  kept, problem = [], ""
  for text in captions:
    if not isinstance(text, str):
      problem = "caption that is no text"
    elif not text.strip():
      problem = "empty caption"
    elif not _is_utf8(text):
      problem = "broken UTF-8"
    else:
      kept.append(text.strip())
  return tuple(kept), problem


def of_object(value: Mapping[str, Any]) -> tuple[tuple[str, ...], str]:
  """Like `usable`, for an object with captions under one of its keys."""
  return usable(_first(value, _CAPTION))


def _first(value: Mapping[str, Any], keys: Sequence[str]) -> Any:
  return next((value[k] for k in keys if value.get(k) is not None), None)


def _is_utf8(text: str) -> bool:
  try:
    text.encode()
  except UnicodeEncodeError:
    return False
  return True


def _row(line: int, image: Any, captions: tuple[str, ...], problem: str) -> Row:
  if not isinstance(image, str) or not image.strip():
    return Row(line, None, captions, "no file name of an image")
  if not _is_utf8(image) or "\0" in image:
    return Row(line, None, captions, "broken UTF-8")
  return Row(line, image.strip(), captions, problem)


def _json_rows(path: str, content: bytes) -> Iterator[Row]:
  del path
  for number, line in enumerate(content.split(b"\n"), start=1):
    if not line.strip():
      continue
    try:
      value = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError:
      yield Row(number, None, (), "broken UTF-8")
      continue
    except (ValueError, RecursionError):
      value = None
    if not isinstance(value, dict):
      yield Row(number, None, (), "no JSON object")
      continue
    yield _row(number, _first(value, _IMAGE), *of_object(value))


def _csv_rows(path: str, content: bytes) -> Iterator[Row]:
  # Invalid bytes become surrogates, so that their row can be named.
  text = content.decode("utf-8-sig", "surrogateescape")
  header = text.partition("\n")[0]
  reader = csv.reader(
    io.StringIO(text, newline=""),
    delimiter="\t" if "\t" in header else ",",
    strict=True,
  )
  line = 1
  try:
    names = [name.strip().lower() for name in next(reader, [])]
    image, caption = _column(names, _IMAGE), _column(names, _CAPTION)
    if image is None or caption is None:
      raise UserError(
        f"{path} begins with {header.strip()[:80]!r}; its first line has to"
        f" name its columns, one of {', '.join(_IMAGE)} and one of"
        f" {', '.join(_CAPTION)}."
      )
    line = reader.line_num + 1
    for fields in reader:
      if fields:
        named = fields[image] if image < len(fields) else None
        if any(map(str.strip, fields[len(names) :])):
          # It may be the rest of a caption.
          inside = "tabs" if "\t" in header else "commas"
          problem = (
            f"too many columns; captions with {inside} need double quotes"
          )
          yield _row(line, named, (), problem)
        elif caption < len(fields):
          yield _row(line, named, *usable(fields[caption]))
        else:
          yield _row(line, named, (), "too few columns")
      line = reader.line_num + 1
  except csv.Error as error:
    if "field limit" in str(error):
      raise UserError(
        f"{path}, line {line}: a text is longer than"
        f" {csv.field_size_limit():,} characters; shorten it, or close the"
        " double quote that it begins with, if that is missing."
      ) from None
    raise UserError(
      f"{path}, line {line}: a quoted text does not end as it should ({error});"
      ' double the quotes inside it, "like ""this""".'
    ) from None


def _column(names: Sequence[str], known: Sequence[str]) -> int | None:
  return next((names.index(name) for name in known if name in names), None)
