"""The table of parameters that a model and a file do not share."""

import dataclasses
import re
from collections.abc import Mapping, Sequence

from vit_jax.errors import UserError

Shape = tuple[int, ...]
_MAX_ROWS = 40
_BLOCK = re.compile(r"\bencoderblock_(\d+)\b")


@dataclasses.dataclass(frozen=True)
class Misfit:
  """A parameter that is not the same on both sides.

  Attributes:
    parameter: its name.
    in_file: its shape there; None: the file does not have it.
    wanted: its shape in the model; None: the model does not have it.
    reason: what is likely the cause and what would mend it; "" if unknown.
  """

  parameter: str
  in_file: Shape | None
  wanted: Shape | None
  reason: str = ""


def check(
  found: Mapping[str, Shape], wanted: Mapping[str, Shape], sentence: str
) -> None:
  """Raises a table of all that two sets of parameters do not share.

  Args:
    found: {name: shape} in the file.
    wanted: {name: shape} of the network that its main parameters tell.
    sentence: what that means for the file.
  """
  misfits = [
    Misfit(name, found.get(name), wanted.get(name))
    for name in found | wanted
    if found.get(name) != wanted.get(name)
  ]
  if misfits:
    raise UserError(
      f"{sentence}: these do not go with its other parameters.\n"
      + table(misfits)
    )


def table(misfits: Sequence[Misfit]) -> str:
  """Rows of parameter, shape in file, shape wanted and likely reason.

  Blocks of the encoder that misfit alike share a row.
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
  num_more = len(groups) - _MAX_ROWS
  for (name, in_file, wanted, reason), numbers in list(groups.items())[
    :_MAX_ROWS
  ]:
    name = str(name).replace("{}", _ranges(numbers))
    rows.append((name, _shown(in_file), _shown(wanted), str(reason)))
  if not any(row[3] for row in rows[1:]):
    rows = [(*row[:3], "") for row in rows]
  widths = [max(len(row[i]) for row in rows) for i in range(4)]
  lines = [
    "  ".join(
      cell.ljust(width) for cell, width in zip(row, widths, strict=True)
    ).rstrip()
    for row in rows
  ]
  if num_more > 0:
    lines.append(f"... and {num_more} more")
  return "\n".join(lines)


def _shown(shape: object) -> str:
  return "not there" if shape is None else str(shape)


def _ranges(numbers: Sequence[int]) -> str:
  """'3', or '0...11' where more than one block is meant."""
  if len(numbers) < 2:
    return "".join(str(number) for number in numbers)
  numbers = sorted(numbers)
  if numbers == list(range(numbers[0], numbers[-1] + 1)):
    return f"{{{numbers[0]}...{numbers[-1]}}}"
  return "{" + ",".join(str(number) for number in numbers) + "}"
