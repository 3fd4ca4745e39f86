"""Image files with labels in a CSV file: 'csv:FILE' or 'csv:FILE,label=breed'.

The first line names the columns. The image is in the column file_name,
filename, image, filepath or path, relative to the directory of FILE. The class
is in label, class, target or category; a column labels has several, separated
by '|', or none. Classes are names, or numbers if all of them are. A column
split, if present, gives the split of each row; otherwise all are 'train'. Other
columns are specified by `image=`, `label=`, `labels=` and `split=`.

Numbers to predict instead of classes are in the column target, label or value,
or in those specified by `target=`, once for each, as in
'csv:FILE,target=x,target=y'.

As in an image folder, the records of a split are ordered by a hash of their
names, so that 'train[:80%]' contains some of every class.
"""

import csv
import dataclasses
import hashlib
import io
import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from etils import epath

from vit_jax import buckets, truncate
from vit_jax.config import schema
from vit_jax.data import csv_columns, csv_numbers, folder, sources, splits
from vit_jax.data.csv_columns import Columns, Named
from vit_jax.errors import UserError

_SEPARATOR = "|"  # Between several labels.


@dataclasses.dataclass(frozen=True)
class _Row:
  """One image: its path as written, its labels or numbers, and its split."""

  image: str
  labels: tuple[str, ...]
  split: str


def check(arguments: str) -> tuple[str, Named]:
  """Parses the file and the specified columns.

  Raises:
    UserError: There is no file, or an argument names no column.
  """
  path, *others = arguments.split(",")
  if not path:
    raise UserError("Dataset 'csv:': name the file, as in 'csv:labels.csv'.")
  return path, csv_columns.named(arguments, others)


def open_source(
  arguments: str,
  split: str,
  *,
  data_dir: str | None,
  numbers: bool = False,
  max_bad_examples: int = 0,
  **unused: object,
) -> folder.FolderSource:
  """Opens the images of a CSV file; see `vit_jax.data.sources.open_source`.

  `arguments` are those of `check`; a relative FILE is resolved against
  `data_dir`.

  Raises:
    UserError: The file cannot be read, a row is not an image with its class or
      numbers, or more than `max_bad_examples` files are not images.
  """
  name, named = check(arguments)
  path = _absolute(name, data_dir)
  columns, rows = _read(path, named, numbers=numbers)
  present: dict[str, list[_Row]] = {}
  for row in rows:
    present.setdefault(row.split, []).append(row)
  for found in present.values():
    found.sort(key=_shuffled)
  pieces = splits.resolve(
    split,
    {name: [len(found)] for name, found in present.items()},
    dataset=path,
  )
  chosen = [
    row
    for piece in pieces
    for row in present[piece.name][piece.start : piece.stop]
  ]
  if columns.are_numbers:
    label: sources.Feature = sources.Numbers(columns.label_names)
    labels = csv_numbers.parse([row.labels for row in chosen])
    identity = repr(label)
  else:
    class_names, number_of = _classes(path, columns, rows)
    label, labels = _numbered(rows, chosen, number_of, class_names)
    # A number means the same class as long as all classes are unchanged.
    identity = repr((class_names, label.num_classes))
  digest = hashlib.sha256(identity.encode())
  for row in chosen:
    digest.update(repr((row.image, row.labels)).encode())
  directory = posixpath.dirname(path) or "."
  source = folder.FolderSource(
    paths=[f"{directory}/{row.image}" for row in chosen],
    labels=labels,
    features={"image": sources.Image(), "label": label},
    fingerprint=f"csv:{split}:{len(chosen)}:{digest.hexdigest()[:16]}",
  )
  folder.check_images(source, max_bad_examples, root=directory)
  return source


def _absolute(name: str, data_dir: str | None) -> str:
  if buckets.is_bucket(name) or os.path.isabs(name) or data_dir is None:
    return os.fspath(epath.Path(name).expanduser())
  return f"{os.fspath(epath.Path(data_dir).expanduser())}/{name}"


def _read(
  path: str, named: Named, *, numbers: bool
) -> tuple[Columns, list[_Row]]:
  """Reads the columns and the rows of a file, each image once.

  Raises:
    UserError: It cannot be read, columns are missing, or rows are incomplete.
  """
  try:
    with buckets.as_os_error(epath.Path(path)):
      text = epath.Path(path).read_bytes().decode("utf-8-sig")
  except OSError as error:
    raise UserError(
      f"{path} cannot be read ({error.strerror or error}); name a CSV file."
    ) from None
  except UnicodeDecodeError as error:
    line = error.object[: error.start].count(b"\n") + 1
    raise UserError(f"{path}, line {line}: broken UTF-8; fix it.") from None
  rows, problems = [], []
  seen: dict[str, int] = {}
  lines = _lines(path, text)
  _, names = next(lines)
  columns = csv_columns.find(path, names, named, numbers=numbers)
  for line, fields in lines:
    row = _row(fields, columns)
    problem = _problem(row, columns)
    if any(fields[len(names) :]):
      # They may be the rest of a label.
      problem = "too many columns; a text with a separator needs double quotes"
    if not problem and row.image in seen:
      problem = f"the image of line {seen[row.image]} again"
    if problem:
      problems.append(f"line {line} ({problem})")
      continue
    seen[row.image] = line
    rows.append(row)
  if problems:
    raise UserError(
      f"{path} has rows that cannot be used:"
      f" {truncate.first(problems, separator='; ')}. Fix or remove them."
    )
  if not rows:
    raise UserError(f"{path} has no rows.")
  return columns, rows


def _lines(path: str, text: str) -> Iterator[tuple[int, list[str]]]:
  """Number and fields of the first line, then of each nonempty line."""
  header = next(iter(text.splitlines()), "")
  delimiter = next((mark for mark in "\t;" if mark in header), ",")
  reader = csv.reader(
    io.StringIO(text, newline=""), delimiter=delimiter, strict=True
  )
  try:
    yield 1, [name.strip() for name in next(reader, [])]
    for fields in reader:
      if fields:
        yield reader.line_num, [field.strip() for field in fields]
  except csv.Error as error:
    raise UserError(
      f"{path}, line {reader.line_num}: a quoted text does not end as it should"
      f' ({error}); double the quotes inside it, "like ""this""".'
    ) from None


def _row(fields: Sequence[str], columns: Columns) -> _Row:
  """The parts of a line, '' for missing ones."""

  def at(place: int) -> str:
    return fields[place] if place < len(fields) else ""

  labels = tuple(map(at, columns.labels))
  if columns.are_lists:
    parts = (part.strip() for part in labels[0].split(_SEPARATOR))
    labels = tuple(dict.fromkeys(filter(None, parts)))
  image = at(columns.image)
  return _Row(
    image=posixpath.normpath(image) if image else "",
    labels=labels,
    split="train" if columns.split is None else at(columns.split),
  )


def _problem(row: _Row, columns: Columns) -> str:
  """Describes why a row cannot be used; '' if it can."""
  image = row.image
  if not image:
    return "no file name of an image"
  if posixpath.isabs(image) or image.startswith("..") or "\0" in image:
    return f"{image} is outside of the file's directory"
  if columns.are_numbers:
    problems = map(csv_numbers.problem, columns.label_names, row.labels)
    if problem := next(filter(None, problems), ""):
      return problem
  elif not columns.are_lists and not row.labels[0]:
    return "no label"
  if not row.split:
    return "no split"
  return ""


def _shuffled(row: _Row) -> bytes:
  """A sort key that is independent of the class."""
  return hashlib.blake2b(os.fsencode(row.image), digest_size=16).digest()


def _classes(
  path: str, columns: Columns, rows: Sequence[_Row]
) -> tuple[tuple[str, ...] | None, dict[str, int]]:
  """Names of the classes, None for numbers, and the number of each text.

  Classes are collected from all splits, so labels mean the same in each.

  Raises:
    UserError: There are fewer than two, or they are numbers to predict.
  """
  found = {label for row in rows for label in row.labels}
  if fraction := csv_numbers.fraction(found):
    (column,) = columns.label_names
    raise UserError(
      f"{path} has numbers such as {fraction} in its column {column!r}, which"
      " are not classes. To predict them, set config.objective.loss = 'mse', or"
      f" name the column as in 'csv:FILE,target={column}'; if they are names of"
      " classes, make words of them."
    )
  if found and all(label.isdecimal() for label in found):
    number_of = {label: int(label) for label in found}
    names = None
    if (largest := max(number_of.values())) >= schema.MAX_SIZE:
      raise UserError(
        f"{path} has the class {largest}, and a model can have"
        f" {schema.MAX_SIZE}; number the classes from 0 without gaps, or write"
        " their names."
      )
  else:
    names = tuple(sorted(found))
    number_of = {name: number for number, name in enumerate(names)}
  if len(found) < 2:
    raise UserError(
      f"{path} has {'one class' if found else 'no class'}; a classifier needs"
      " two or more."
    )
  return names, number_of


def _numbered(
  rows: Sequence[_Row],
  chosen: Sequence[_Row],
  number_of: Mapping[str, int],
  class_names: tuple[str, ...] | None,
) -> tuple[sources.Label, np.ndarray]:
  """Returns the feature and the labels of the chosen rows."""
  num_classes = max(number_of.values()) + 1
  width = max(len(row.labels) for row in rows)
  if width == 1 and all(len(row.labels) == 1 for row in rows):
    label = sources.Label(num_classes, class_names)
    numbers = [number_of[row.labels[0]] for row in chosen]
    return label, np.array(numbers, np.int32)
  # Lists remain lists even if no image has two labels: one may have none.
  width = max(width, 2)
  labels = np.full((len(chosen), width), -1, np.int32)
  for number, row in enumerate(chosen):
    labels[number, : len(row.labels)] = [number_of[one] for one in row.labels]
  return sources.Label(num_classes, class_names, width), labels
