"""The table of parameters that differ between a model and a file.

Each row names the key of `config.model` that would make the parameter match.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vit_jax import registry, text_tables
from vit_jax.config import schema
from vit_jax.errors import UserError

Shape = tuple[int, ...]
_MAX_ROWS = 40
_BLOCK = re.compile(r"\bencoderblock_(\d+)\b")


@dataclasses.dataclass(frozen=True)
class Misfit:
  """A parameter that differs between a file and a model.

  Attributes:
    parameter: Path of the parameter.
    in_file: Shape in the file; None if it is not there.
    wanted: Shape in the model; None if it is not there.
    reason: Likely cause and fix; "" if unknown.
  """

  parameter: str
  in_file: Shape | None
  wanted: Shape | None
  reason: str = ""


class ShapeMismatchError(UserError):
  """An error with a sentence followed by the table of misfits."""

  def __init__(self, sentence: str, misfits: Sequence[Misfit]):
    super().__init__(f"{sentence}\n{table(misfits)}")
    self.sentence = sentence
    self.misfits = tuple(misfits)

  def respelled(
    self, respell: Callable[[Misfit], Misfit]
  ) -> "ShapeMismatchError":
    """Returns the same error with the file's own names and shapes."""
    return ShapeMismatchError(
      self.sentence, [respell(misfit) for misfit in self.misfits]
    )


def find(
  found: Mapping[str, Shape], wanted: Mapping[str, Shape]
) -> list[Misfit]:
  """Lists the parameters whose shapes differ or that only one side has."""
  return [
    Misfit(name, found.get(name), wanted.get(name))
    for name in found | wanted
    if found.get(name) != wanted.get(name)
  ]


def check(
  found: Mapping[str, Shape], wanted: Mapping[str, Shape], sentence: str
) -> None:
  """Compares a file's parameters with those of the network they imply.

  Args:
    found: Shapes in the file, by path.
    wanted: Shapes in the network implied by the main parameters, by path.
    sentence: Explanation of what a mismatch means for the file, without a full
      stop.

  Raises:
    ShapeMismatchError: Some parameters differ.
  """
  if misfits := find(found, wanted):
    raise ShapeMismatchError(
      f"{sentence}: these parameters do not fit the others.", misfits
    )


def explain(
  misfits: Sequence[Misfit], found: schema.Model, wanted: schema.Model
) -> list[Misfit]:
  """Adds likely reasons to misfits.

  Args:
    misfits: Parameters that differ between two networks.
    found: Section `model` of the file.
    wanted: Section `model` of the network to initialise from it.
  """
  theirs, ours = _facts(found), _facts(wanted)
  differing = {
    key: (theirs[key], ours[key])
    for key in theirs.keys() & ours.keys()
    if theirs[key] != ours[key]
  }
  return [
    dataclasses.replace(misfit, reason=_reason(misfit, wanted.name, differing))
    for misfit in misfits
  ]


def table(misfits: Sequence[Misfit]) -> str:
  """Returns aligned rows of parameter, shape in file and model, and reason.

  Encoder blocks with the same misfit share a row.
  """
  groups: dict[tuple[object, ...], list[int]] = {}
  for misfit in misfits:
    block = _BLOCK.search(misfit.parameter)
    name = _BLOCK.sub("encoderblock_{}", misfit.parameter)
    group = (name, misfit.in_file, misfit.wanted, misfit.reason)
    numbers = groups.setdefault(group, [])
    if block:
      numbers.append(int(block[1]))
  rows = [("parameter", "in the file", "wanted", "likely reason")]
  for (name, in_file, wanted, reason), numbers in groups.items():
    name = str(name).replace("{}", _ranges(numbers))
    rows.append((name, _shown(in_file), _shown(wanted), str(reason)))
  num_more = len(rows) - 1 - _MAX_ROWS
  rows = rows[: _MAX_ROWS + 1]
  if not any(reason for *_, reason in rows[1:]):
    rows[0] = (*rows[0][:3], "")
  lines = text_tables.aligned(rows)
  if num_more > 0:
    lines.append(f"... and {num_more} more")
  return "\n".join(lines)


def _shown(shape: object) -> str:
  return "not there" if shape is None else str(shape)


def _ranges(numbers: Sequence[int]) -> str:
  """Formats block numbers: '3' for one, '{0...11}' or '{0,4}' for several."""
  if len(numbers) < 2:
    return "".join(map(str, numbers))
  numbers = sorted(numbers)
  if numbers == list(range(numbers[0], numbers[-1] + 1)):
    return f"{{{numbers[0]}...{numbers[-1]}}}"
  return "{" + ",".join(map(str, numbers)) + "}"


def _facts(model: schema.Model) -> dict[str, Any]:
  """Returns the keys of a section, with its variant expanded to numbers."""
  family = registry.FAMILIES.get(model.name)
  return {
    **model.model_dump(),
    **dataclasses.asdict(family.size(model)),
    **family.implied(model),
  }


def _reason(
  misfit: Misfit, model: str, differing: dict[str, tuple[Any, Any]]
) -> str:
  if "name" in differing:
    return f"the file is of config.model.name={differing['name'][0]!r}"
  one_sided = misfit.in_file is None or misfit.wanted is None
  family = registry.FAMILIES.get(model)
  for key in family.deciding(misfit.parameter, one_sided):
    if key in differing:
      return _advice(key, *differing[key])
  return ""


def _advice(key: str, theirs: Any, ours: Any) -> str:
  if key == "representation_size":
    if theirs is None:
      return f"the file has no pre_logits layer; set config.model.{key}=None"
    return (
      f"the file has a pre_logits layer; set config.model.{key}={theirs} or"
      " None"
    )
  if key == "patch_size":
    return (
      f"the file's patches are of {theirs} pixels; set config.model.variant"
    )
  advice = f"set config.model.{key}={theirs!r} (it is {ours!r})"
  if key == "norm_after_pool":
    # Objectives that learn from normalised patches cannot set it.
    return f"name it in config.init_without, or {advice}"
  return advice
