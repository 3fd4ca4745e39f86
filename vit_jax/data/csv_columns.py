"""The columns of a CSV file of images, by their roles."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from vit_jax import truncate
from vit_jax.errors import UserError

# Role -> names of its column. Only the image and one of the labels must be
# there.
_USUAL = {
  "image": ("file_name", "filename", "image", "filepath", "path"),
  "label": ("label", "class", "target", "category"),
  "labels": ("labels", "classes", "tags"),
  "split": ("split", "set", "subset"),
}
_NUMBER = "target"  # The role of a column of numbers, which several may have.
_USUAL_NUMBER = ("target", "label", "value")

Named = Mapping[str, tuple[str, ...]]


@dataclasses.dataclass(frozen=True)
class Columns:
  """Places of the columns that are read, counted from 0.

  Attributes:
    image: Names of files.
    labels: Classes: one column; or numbers: one or more.
    label_names: Names of these.
    split: Names of splits; None: there is no such column.
    are_lists: Labels are several classes or none.
    are_numbers: Labels are numbers to predict.
  """

  image: int
  labels: tuple[int, ...]
  label_names: tuple[str, ...]
  split: int | None
  are_lists: bool = False
  are_numbers: bool = False


def named(dataset: str, arguments: Sequence[str]) -> Named:
  """Columns that the name of a dataset names, by their role.

  Args:
    dataset: What follows 'csv:', for messages.
    arguments: Texts such as 'label=breed'.

  Raises:
    UserError: An argument names no column, or one again.
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
  """Finds the columns of a file by what they are called.

  Args:
    path: The file, for messages.
    names: Names of its columns, in their order.
    named: Columns that the dataset's name names, by their role.
    numbers: Whether labels are numbers, even if none is named as such.

  Raises:
    UserError: A column is not there, or there are several for one role.
  """
  lower = [name.lower() for name in names]

  def usual(words: Sequence[str]) -> Iterator[int]:
    return (lower.index(word) for word in words if word in lower)

  places: dict[str, tuple[int, ...]] = {}
  for role in (*_USUAL, _NUMBER):
    for column in named.get(role, ()):
      if column not in names:
        raise UserError(
          f"{path} has no column {column!r}; its columns are"
          f" {truncate.first(names)}."
        )
      places[role] = (*places.get(role, ()), names.index(column))
  for role in ("image", "split"):
    if role not in places:
      places[role] = tuple(usual(_USUAL[role]))[:1]
  if not places["image"]:
    raise UserError(_lacking(path, names, "image", _USUAL["image"]))
  common = {
    "image": places["image"][0],
    "split": next(iter(places["split"]), None),
  }
  if numbers or _NUMBER in named:
    if "labels" in named:
      raise UserError(
        f"{path}: 'labels={named['labels'][0]}' names lists of classes, and"
        f" config.objective.loss wants numbers; write {_NUMBER}=COLUMN."
      )
    found = places.get(_NUMBER) or places.get("label")
    found = found or tuple(usual(_USUAL_NUMBER))[:1]
    if not found:
      raise UserError(_lacking(path, names, _NUMBER, _USUAL_NUMBER))
    of_labels = tuple(names[place] for place in found)
    return Columns(
      labels=found, label_names=of_labels, are_numbers=True, **common
    )
  for role in ("label", "labels"):
    # What is named wins over what is there by its usual name.
    if not {"label", "labels"} & named.keys() or role in named:
      places[role] = places.get(role) or tuple(usual(_USUAL[role]))[:1]
  one, several = places.get("label", ()), places.get("labels", ())
  if one and several:
    raise UserError(
      f"{path} has the columns {names[one[0]]!r} and {names[several[0]]!r};"
      " name the one that is meant, as in"
      f" 'csv:FILE,label={names[one[0]]}' or"
      f" 'csv:FILE,labels={names[several[0]]}'."
    )
  if not (one or several):
    raise UserError(_lacking(path, names, "label", _USUAL["label"]))
  found = one or several
  return Columns(
    labels=found,
    label_names=tuple(names[place] for place in found),
    are_lists=bool(several),
    **common,
  )


def _lacking(
  path: str, names: Sequence[str], role: str, usual: Sequence[str]
) -> str:
  return (
    f"{path} has the columns {truncate.first(names)}, of which none is the"
    f" {role}; call it {' or '.join(usual[:3])}, or name it as in"
    f" 'csv:FILE,{role}=COLUMN'."
  )
