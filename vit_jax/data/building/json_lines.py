"""The input of one JSON object a line: {"path": ..., "labels": [...]}.

Either every line has "label", one class, or every line has "labels", a list.
Classes are numbers from 0 or names. Only where each line begins is kept.
"""

import array
import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vit_jax.data.building import class_names
from vit_jax.data.building.contract import Example, Inputs
from vit_jax.data.building.image_file import ImageFile
from vit_jax.errors import UserError

_MAX_NAMED = 10


@dataclasses.dataclass(frozen=True)
class Line:
  """An example that a line names; see `contract.Place`.

  Attributes:
    file: the JSON lines.
    offset: where the line begins, bytes.
    root: real path of the directory that image paths start from and stay in.
    numbers: class name -> label; empty if the lines have numbers.
  """

  file: str
  offset: int
  root: str
  numbers: Mapping[str, int]

  def read(self) -> Example:
    """See `contract.Place.read`."""
    with open(self.file, "rb") as file:
      file.seek(self.offset)
      path, classes = _parse(file.readline())
    labels = tuple(dict.fromkeys(self.numbers.get(c, c) for c in classes))
    where = os.path.join(self.root, path)
    return ImageFile(where, self.root, path, labels).read()


@dataclasses.dataclass(frozen=True)
class LinePlaces:
  """The lines of one file; see `contract.Places`."""

  file: str
  offsets: Sequence[int]
  root: str
  numbers: Mapping[str, int]

  def __len__(self) -> int:
    return len(self.offsets)

  def places(self, ids: np.ndarray) -> list[Line]:
    """See `contract.Places.places`."""
    return [
      Line(self.file, self.offsets[i], self.root, self.numbers) for i in ids
    ]


@dataclasses.dataclass
class _Seen:
  """What all lines have in common, so far."""

  forms: set[tuple[str, type]] = dataclasses.field(default_factory=set)
  names: set[str] = dataclasses.field(default_factory=set)
  highest: int = -1
  most_labels: int = 0


def read(
  splits: Mapping[str, str], image_root: str | None, names: Sequence[str] | None
) -> Inputs:
  """Reads every line once, and no image.

  Args:
    splits: name -> path of its JSON lines.
    image_root: directory that paths start from; None: where the lines are.
    names: of all classes, in the order of their labels; None: names are
      sorted, numbers go up to the highest.

  Raises:
    UserError: naming lines that are not of the form, or do not agree.
  """
  seen, identity, found = _Seen(), hashlib.sha256(), {}
  for split, path in sorted(splits.items()):
    found[split], content = _scan(path, seen)
    identity.update(f"{split}\0{content}\0".encode())
  some = next(iter(splits.values()))
  if len(seen.forms) > 1:
    forms = " and ".join(
      sorted(f'"{key}" with {_KINDS[kind]}' for key, kind in seen.forms)
    )
    raise UserError(f"{some}: lines do not agree: they have {forms}.")
  if not seen.forms:
    raise UserError(f"{some}: no line has a label.")
  ((key, kind),) = seen.forms
  numbers: dict[str, int] = {}
  if kind is str:
    names = class_names.order(seen.names, names, some)
    numbers = {name: number for number, name in enumerate(names)}
  elif names is None and seen.highest < 1:
    raise UserError(f"{some} has one class, 0; a classifier needs two or more.")
  elif names is not None and seen.highest >= len(names):
    raise UserError(
      f"{some} has label {seen.highest}, and --class_names only"
      f" {len(names)} names, of labels 0 to {len(names) - 1}."
    )
  root = image_root or os.path.dirname(os.path.abspath(some))
  if not os.path.isdir(root):
    raise UserError(f"--image_root={root} is no directory.")
  real = os.path.realpath(root)
  return Inputs(
    splits={
      split: LinePlaces(splits[split], offsets, real, numbers)
      for split, offsets in found.items()
    },
    class_names=tuple(names) if names is not None else None,
    num_classes=len(names) if names is not None else seen.highest + 1,
    # A list stays a list where no image has two: one may have none.
    max_labels=max(2, seen.most_labels) if key == "labels" else 1,
    identity=identity.hexdigest(),
  )


_KINDS = {int: "numbers", str: "names"}


def _scan(path: str, seen: _Seen) -> tuple[Sequence[int], str]:
  """Where each line begins, int64, and the file's SHA-256."""
  offsets, content, problems = array.array("q"), hashlib.sha256(), []
  offset = 0
  try:
    with open(path, "rb") as file:
      for number, line in enumerate(file, start=1):
        content.update(line)
        if line.strip():
          try:
            _note(line, seen)
            offsets.append(offset)
          except (ValueError, RecursionError) as error:
            problems.append(f"{path}, line {number}: {error}.")
            if len(problems) == _MAX_NAMED:
              break
        offset += len(line)
  except OSError as error:
    raise UserError(f"{path} cannot be read ({error.strerror}).") from None
  if problems:
    raise UserError("\n".join(problems))
  if not offsets:
    raise UserError(f"{path} has no lines.")
  return offsets, content.hexdigest()


def _note(line: bytes, seen: _Seen) -> None:
  """Checks a line and adds it to what was seen.

  Raises:
    ValueError: saying what is wrong.
  """
  value = json.loads(line)
  if not isinstance(value, dict):
    raise ValueError('it is no object; write {"path": ..., "label": ...}')
  if not isinstance(value.get("path"), str) or not value["path"]:
    raise ValueError('it has no "path"')
  if ("label" in value) == ("labels" in value):
    raise ValueError('it must have either "label" or "labels"')
  key = "label" if "label" in value else "labels"
  classes = [value[key]] if key == "label" else value[key]
  if not isinstance(classes, list):
    raise ValueError('its "labels" is no list')
  for label in classes:
    if type(label) not in _KINDS:
      raise ValueError(f"{label!r} is no class: write a number or a name")
    if type(label) is int:
      if not 0 <= label < 2**31:
        raise ValueError(f"class {label} is below 0 or too large")
      seen.highest = max(seen.highest, label)
    else:
      seen.names.add(label)
    seen.forms.add((key, type(label)))
  seen.most_labels = max(seen.most_labels, len(set(classes)))


def _parse(line: bytes) -> tuple[str, list[Any]]:
  """Path and classes of a line that has been checked."""
  value = json.loads(line)
  return value["path"], value.get("labels", [value.get("label")])
