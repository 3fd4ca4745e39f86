"""The input with one JSON object per line: {"path": ..., "labels": [...]}.

Either every line has "label", one class, or every line has "labels", a list.
Classes are numbers from 0 or names. Only the position of each line is kept.
"""

import array
import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vit_jax.config import schema
from vit_jax.data.building import class_names
from vit_jax.data.building.contract import Example, Inputs, Split
from vit_jax.errors import UserError

_FORM = '{"path": ..., "label": ...}'
_MAX_NAMED = 10
_KINDS = {int: "numbers", str: "names"}


@dataclasses.dataclass
class _Seen:
  """Properties of all lines so far."""

  forms: set[tuple[str, type]] = dataclasses.field(default_factory=set)
  names: set[str] = dataclasses.field(default_factory=set)
  highest: int = -1
  most_labels: int = 0


def read(
  splits: Mapping[str, str], image_root: str | None, names: Sequence[str] | None
) -> Inputs:
  """Reads every line once, without reading images.

  Without `image_root`, paths are relative to the directory of the file; without
  `names`, names of classes are sorted, and the largest number determines their
  count.

  Raises:
    UserError: Lines have another form or are inconsistent; the message names
      them.
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
    raise UserError(f"--image_root={root} is not a directory.")
  root = os.path.realpath(root)
  return Inputs(
    splits={
      split: Split(
        len(offsets),
        functools.partial(_examples, splits[split], offsets, root, numbers),
      )
      for split, offsets in found.items()
    },
    class_names=tuple(names) if names is not None else None,
    num_classes=len(names) if names is not None else seen.highest + 1,
    # Lists remain lists even if no image has two labels: one may have none.
    max_labels=max(2, seen.most_labels) if key == "labels" else 1,
    identity=identity.hexdigest(),
    place=root,
  )


def _examples(
  path: str,
  offsets: Sequence[int],
  root: str,
  numbers: Mapping[str, int],
  ids: np.ndarray,
) -> list[Example]:
  """Reads lines again; `numbers` is empty if classes are numbers."""
  examples = []
  with open(path, "rb") as file:
    for i in ids:
      file.seek(offsets[i])
      value = json.loads(file.readline())
      classes = value.get("labels", [value.get("label")])
      examples.append(
        Example(
          name=value["path"],
          labels=tuple(dict.fromkeys(numbers.get(c, c) for c in classes)),
          path=os.path.join(root, value["path"]),
          root=root,
        )
      )
  return examples


def _scan(path: str, seen: _Seen) -> tuple[Sequence[int], str]:
  """Returns the position of each line, int64, and the file's SHA-256."""
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
  """Checks a line and adds it to `seen`; raises ValueError with the reason."""
  try:
    value: Any = json.loads(line)
  except UnicodeDecodeError:
    raise ValueError("it is not UTF-8; save the file in that") from None
  except json.JSONDecodeError as error:
    raise ValueError(
      f"it is not JSON ({error.msg}, character {error.pos + 1}); write {_FORM}"
    ) from None
  if not isinstance(value, dict):
    raise ValueError(f"it is not an object; write {_FORM}")
  if not isinstance(value.get("path"), str) or not value["path"]:
    raise ValueError('it has no "path"')
  if ("label" in value) == ("labels" in value):
    raise ValueError('it must have either "label" or "labels"')
  key = "label" if "label" in value else "labels"
  classes = [value[key]] if key == "label" else value[key]
  if not isinstance(classes, list):
    raise ValueError('its "labels" is not a list')
  for label in classes:
    if type(label) not in _KINDS:
      raise ValueError(f"{label!r} is not a class: write a number or a name")
    if type(label) is int:
      if not 0 <= label < schema.MAX_SIZE:
        raise ValueError(
          f"class {label} is below 0 or too large; number classes from 0 to"
          f" {schema.MAX_SIZE - 1} at most, or write their names"
        )
      seen.highest = max(seen.highest, label)
    else:
      seen.names.add(label)
    seen.forms.add((key, type(label)))
  seen.most_labels = max(seen.most_labels, len(set(classes)))
