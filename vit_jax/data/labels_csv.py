"""Image files with labels in a CSV file: 'csv:FILE' or 'csv:FILE,label=breed'.

The first line names the columns. The image is the column file_name, filename,
image, filepath or path, and starts from the directory of FILE. The class is
label, class, target or category; a column labels has several, divided by '|',
or none. Classes are names, or numbers if all are. A column split, if there is
one, tells the split of each row; else all are 'train'. Other columns are named
by `image=`, `label=`, `labels=` and `split=`.

As in an image folder, the records of a split are ordered by a hash of their
names, so that 'train[:80%]' holds some of every class.
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
from vit_jax.data import folder, sources, splits
from vit_jax.errors import UserError

# Role -> names of its column. Only the image and one of the labels must be
# there.
_COLUMNS = {
  "image": ("file_name", "filename", "image", "filepath", "path"),
  "label": ("label", "class", "target", "category"),
  "labels": ("labels", "classes", "tags"),
  "split": ("split", "set", "subset"),
}
_SEPARATOR = "|"  # Of several labels.


@dataclasses.dataclass(frozen=True)
class _Row:
  """One image: its path as written, its labels and its split."""

  image: str
  labels: tuple[str, ...]
  split: str


def check(arguments: str) -> tuple[str, dict[str, str]]:
  """The file and the columns that are named.

  Raises:
    UserError: There is no file, or an argument names no column.
  """
  path, *others = arguments.split(",")
  if not path:
    raise UserError("Dataset 'csv:': name the file, as in 'csv:labels.csv'.")
  named = {}
  for other in others:
    role, equals, column = other.partition("=")
    if role not in _COLUMNS or not equals or not column:
      raise UserError(
        f"Dataset 'csv:{arguments}': {other!r} names no column; write"
        f" {', '.join(f'{role}=COLUMN' for role in _COLUMNS)}."
      )
    named[role] = column
  return path, named


def open_source(
  arguments: str,
  split: str,
  *,
  data_dir: str | None,
  max_bad_examples: int = 0,
  **unused: object,
) -> folder.FolderSource:
  """Opens the images of a CSV file; see `vit_jax.data.sources.open_source`.

  `arguments` are those of `check`; a relative FILE starts from `data_dir`.

  Raises:
    UserError: The file cannot be read, a row is no image with its class, or
      more than `max_bad_examples` files are no images.
  """
  name, named = check(arguments)
  path = _absolute(name, data_dir)
  rows = _read(path, named)
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
  class_names, number_of = _classes(path, rows)
  label, labels = _numbered(rows, chosen, number_of, class_names)
  # A number means the same class as long as all classes are the same.
  digest = hashlib.sha256(repr((class_names, label.num_classes)).encode())
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


def _read(path: str, named: Mapping[str, str]) -> list[_Row]:
  """The rows of a file, each image once.

  Raises:
    UserError: It cannot be read, has no such columns, or rows are incomplete.
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
    raise UserError(f"{path}, line {line}: broken UTF-8; mend it.") from None
  rows, problems = [], []
  seen: dict[str, int] = {}
  for line, fields in _lines(path, text, named):
    problem = _problem(fields)
    if not problem and fields["image"] in seen:
      problem = f"the image of line {seen[fields['image']]} again"
    if problem:
      problems.append(f"line {line} ({problem})")
      continue
    seen[fields["image"]] = line
    given = fields.get("labels")
    labels = (fields.get("label", ""),)
    if given is not None:
      parts = (part.strip() for part in given.split(_SEPARATOR))
      labels = tuple(dict.fromkeys(filter(None, parts)))
    rows.append(
      _Row(posixpath.normpath(fields["image"]), labels, fields["split"])
    )
  if problems:
    raise UserError(
      f"{path} has rows that cannot be used:"
      f" {truncate.first(problems, separator='; ')}. Mend or remove them."
    )
  if not rows:
    raise UserError(f"{path} has no rows.")
  return rows


def _lines(
  path: str, text: str, named: Mapping[str, str]
) -> Iterator[tuple[int, dict[str, str]]]:
  """Number of each line, and its fields by their role."""
  header = text.partition("\n")[0]
  delimiter = next((mark for mark in "\t;" if mark in header), ",")
  reader = csv.reader(io.StringIO(text), delimiter=delimiter, strict=True)
  try:
    names = [name.strip() for name in next(reader, [])]
    places = _places(path, names, named)
    for fields in reader:
      if fields:
        yield (
          reader.line_num,
          {"split": "train"}
          | {
            role: fields[place].strip() if place < len(fields) else ""
            for role, place in places.items()
          },
        )
  except csv.Error as error:
    raise UserError(
      f"{path}, line {reader.line_num}: a quoted text does not end as it should"
      f' ({error}); double the quotes inside it, "like ""this""".'
    ) from None


def _places(
  path: str, names: Sequence[str], named: Mapping[str, str]
) -> dict[str, int]:
  """Role -> number of its column."""
  lower = [name.lower() for name in names]
  places = {}
  for role, usual in _COLUMNS.items():
    if role in named:
      if named[role] not in names:
        raise UserError(
          f"{path} has no column {named[role]!r}; its columns are"
          f" {truncate.first(names)}."
        )
      places[role] = names.index(named[role])
    else:
      found = (lower.index(name) for name in usual if name in lower)
      if (place := next(found, None)) is not None:
        places[role] = place
  # What is named wins over what is there by its usual name.
  for one, other in (("label", "labels"), ("labels", "label")):
    if one in named and other not in named:
      places.pop(other, None)
  if {"label", "labels"} <= places.keys():
    one, several = (names[places[role]] for role in ("label", "labels"))
    raise UserError(
      f"{path} has the columns {one!r} and {several!r}; name the one that is"
      f" meant, as in 'csv:FILE,label={one}' or 'csv:FILE,labels={several}'."
    )
  if "image" not in places or not {"label", "labels"} & places.keys():
    lacking = "image" if "image" not in places else "label"
    raise UserError(
      f"{path} has the columns {truncate.first(names)}, of which none is the"
      f" {lacking}; call it {' or '.join(_COLUMNS[lacking][:3])}, or name it as"
      f" in 'csv:FILE,{lacking}=COLUMN'."
    )
  return places


def _problem(fields: Mapping[str, str]) -> str:
  image = posixpath.normpath(fields["image"]) if fields["image"] else ""
  if not image:
    return "no file name of an image"
  if posixpath.isabs(image) or image.startswith("..") or "\0" in image:
    return f"{fields['image']} is outside of the file's directory"
  if "labels" not in fields and not fields["label"]:
    return "no label"
  if not fields["split"]:
    return "no split"
  return ""


def _shuffled(row: _Row) -> bytes:
  """A sort key that has nothing to do with the class."""
  return hashlib.blake2b(os.fsencode(row.image), digest_size=16).digest()


def _classes(
  path: str, rows: Sequence[_Row]
) -> tuple[tuple[str, ...] | None, dict[str, int]]:
  """Names of the classes, None of numbers; and the number of each as written.

  Classes of all splits count, so a label means the same in each.
  """
  found = {label for row in rows for label in row.labels}
  if found and all(label.isdecimal() for label in found):
    number_of = {label: int(label) for label in found}
    names = None
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
  """The feature and the labels of the chosen rows."""
  num_classes = max(number_of.values()) + 1
  width = max(len(row.labels) for row in rows)
  if width == 1 and all(len(row.labels) == 1 for row in rows):
    label = sources.Label(num_classes, class_names)
    numbers = [number_of[row.labels[0]] for row in chosen]
    return label, np.array(numbers, np.int32)
  # A list stays a list where no image has two: one may have none.
  width = max(width, 2)
  labels = np.full((len(chosen), width), -1, np.int32)
  for number, row in enumerate(chosen):
    labels[number, : len(row.labels)] = [number_of[one] for one in row.labels]
  return sources.Label(num_classes, class_names, width), labels
