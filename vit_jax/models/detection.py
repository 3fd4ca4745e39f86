"""Parts of `Family.detect`: counting modules and checking a file's shapes."""

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vit_jax.errors import UserError

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Detected:
  """A network detected from the parameters of a file.

  Attributes:
    keys: Keys of the section `model`.
    assumed: A sentence for each assumption.
  """

  keys: Mapping[str, Any]
  assumed: Sequence[str] = ()


def shape_of(
  shapes: Mapping[str, Shape], name: str, rank: int, path: str
) -> Shape:
  """Returns the shape of a parameter that every such network has.

  Args:
    shapes: Shapes of all parameters, by path.
    name: Path of the parameter.
    rank: Number of dimensions that it must have.
    path: Path of the file, for messages.

  Raises:
    UserError: The parameter is missing, empty or of another rank.
  """
  if name not in shapes:
    some = ", ".join(list(shapes)[:5]) or "none"
    raise UserError(
      f"{path} does not hold a complete network: there is no {name} in it. Its"
      f" parameters: {some}{', ...' if len(shapes) > 5 else ''}."
    )
  shape = shapes[name]
  if len(shape) != rank or 0 in shape:
    raise UserError(
      f"{path}: {name} has the shape {shape}; {rank} dimensions, none of them"
      " 0, are wanted."
    )
  return shape


def columns(shapes: Mapping[str, Shape], name: str, path: str) -> int | None:
  """Outputs of a dense layer, None if it is absent. Raises as `shape_of`."""
  return shape_of(shapes, name, 2, path)[1] if name in shapes else None


def count(pattern: re.Pattern[str], names: Iterable[str], first: int) -> int:
  """Counts modules by the largest number in their names.

  Gaps below it show up as missing parameters. A number larger than the count of
  all names cannot belong to a network and is ignored.

  Args:
    pattern: Regex for the start of a name; its last group is the number.
    names: Names of parameters.
    first: Number of the first module.
  """
  names = list(names)
  found = (pattern.match(name) for name in names)
  numbers = [
    int(match[match.re.groups]) - first + 1 for match in found if match
  ]
  return max((n for n in numbers if n <= len(names)), default=0)


def units(names: Iterable[str]) -> tuple[int, ...]:
  """Counts the units of each stage: of block1/unit1/..., block2/unit1/..."""
  names = list(names)
  num_stages = count(re.compile(r"block(\d+)/unit\d+/"), names, 1)
  return tuple(
    count(re.compile(rf"block{stage}/unit(\d+)/"), names, 1)
    for stage in range(1, num_stages + 1)
  )
