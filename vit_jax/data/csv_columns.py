"""The columns of a CSV file of images, by role."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

from vit_jax import truncate
from vit_jax.errors import UserError

# Role -> names of its column. Only the image and one of the labels are
# required.
_USUAL = {
  "image": ("file_name", "filename", "image", "filepath", "path"),
  "label": ("label", "class", "target", "category"),
  "labels": ("labels", "classes", "tags"),
  "split": ("split", "set", "subset"),
}
_NUMBER = "target"  # Role of columns of numbers.
_USUAL_NUMBER = ("target", "label", "value")

Named = Mapping[str, tuple[str, ...]]


@dataclasses.dataclass(frozen=True)
class Columns:
  """Places of the columns to read, counted from 0.

  Attributes:
    image: Column of file names.
    labels: Column of classes, or one or more columns of numbers.
    label_names: Names of the columns in `labels`.
    split: Column of split names; None if there is no such column.
    are_lists: True if a label is a list of any number of classes.
    are_numbers: True if labels are numbers to predict.
  """

  image: int
  labels: tuple[int, ...]
  label_names: tuple[str, ...]
  split: int | None
  are_lists: bool = False
  are_numbers: bool = False


def named(dataset: str, arguments: Sequence[str]) -> Named:
  """Parses the columns given in the name of a dataset, by role.

  Args:
    dataset: Text after 'csv:', for messages.
    arguments: Texts such as 'label=breed'.

  Raises:
    UserError: An argument names no column, or repeats one, or classes and
      numbers are both named.
  """
  found: dict[str, tuple[str, ...]] = {}
  for argument in arguments:
    role, equals, column = argument.partition("=")
    if role not in (*_USUAL, _NUMBER) or not equals or not column:
      raise UserError(
        f"Dataset 'csv:{dataset}': {argument!r} names no column; write"
        f" {', '.join(f'{role}=COLUMN' for role in (*_USUAL, _NUMBER))}."
      )
    before = found.get(role, ())
    if before and (role != _NUMBER or column in before):
      raise UserError(
        f"Dataset 'csv:{dataset}': {argument!r} comes after"
        f" {role}={before[-1]}; name one column once."
      )
    found[role] = (*before, column)
  classes = [role for role in ("label", "labels") if role in found]
  if _NUMBER in found and classes:
    raise UserError(
      f"Dataset 'csv:{dataset}' names a column of classes, {classes[0]}=, and"
      f" one of numbers, {_NUMBER}=; leave out one of the two."
    )
  return found


def find(
  path: str, names: Sequence[str], named: Named, *, numbers: bool
) -> Columns:
  """Finds the columns of a file by their names.

  Args:
    path: Path of the file, for messages.
    names: Names of its columns, in order.
    named: Columns given in the dataset's name, by role.
    numbers: True if labels are numbers, even if no column is named as such.

  Raises:
    UserError: A column is missing, or there are several for one role.
  """
  for column in itertools.chain.from_iterable(named.values()):
    if column not in names:
      raise UserError(
        f"{path} has no column {column!r}; its columns are"
        f" {truncate.first(names)}."
      )
  image = _place(names, named, "image", _USUAL["image"])
  if image is None:
    raise UserError(_lacking(path, names, "image", _USUAL["image"]))
  are_numbers = numbers or _NUMBER in named
  if are_numbers:
    labels, are_lists = _numbers(path, names, named), False
  else:
    label, are_lists = _classes(path, names, named)
    labels = (label,)
  return Columns(
    image=image,
    labels=labels,
    label_names=tuple(names[place] for place in labels),
    split=_place(names, named, "split", _USUAL["split"]),
    are_lists=are_lists,
    are_numbers=are_numbers,
  )


def _place(
  names: Sequence[str], named: Named, role: str, usual: Sequence[str]
) -> int | None:
  """Place of a role's column: the one given, or one with a usual name."""
  if role in named:
    return names.index(named[role][0])
  lower = [name.lower() for name in names]
  return next((lower.index(word) for word in usual if word in lower), None)


def _numbers(path: str, names: Sequence[str], named: Named) -> tuple[int, ...]:
  """Places of the columns of numbers."""
  if "labels" in named:
    raise UserError(
      f"{path}: 'labels={named['labels'][0]}' names lists of classes, and"
      f" config.objective.loss wants numbers; write {_NUMBER}=COLUMN."
    )
  given = named.get(_NUMBER, ()) or named.get("label", ())
  if given:
    return tuple(map(names.index, given))
  place = _place(names, {}, _NUMBER, _USUAL_NUMBER)
  if place is None:
    raise UserError(_lacking(path, names, _NUMBER, _USUAL_NUMBER))
  return (place,)


def _classes(path: str, names: Sequence[str], named: Named) -> tuple[int, bool]:
  """Place of the column of classes, and True if it has lists of them."""
  # A given column takes precedence over one with a usual name.
  roles = [role for role in ("label", "labels") if role in named]
  roles = roles or ["label", "labels"]
  found = {role: _place(names, named, role, _USUAL[role]) for role in roles}
  found = {role: place for role, place in found.items() if place is not None}
  if len(found) > 1:
    one, several = (names[found[role]] for role in ("label", "labels"))
    raise UserError(
      f"{path} has the columns {one!r} and {several!r}; name the one that is"
      f" meant, as in 'csv:FILE,label={one}' or 'csv:FILE,labels={several}'."
    )
  if not found:
    raise UserError(_lacking(path, names, "label", _USUAL["label"]))
  ((role, place),) = found.items()
  return place, role == "labels"


def _lacking(
  path: str, names: Sequence[str], role: str, usual: Sequence[str]
) -> str:
  if not any(names):
    return (
      f"{path} begins with no names of columns; write such a line, as in"
      " 'file_name,label'."
    )
  return (
    f"{path} has the columns {truncate.first(names)}, of which none is the"
    f" {role}; call it {' or '.join(usual[:3])}, or name it as in"
    f" 'csv:FILE,{role}=COLUMN'."
  )
