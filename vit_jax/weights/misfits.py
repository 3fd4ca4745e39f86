"""The table of parameters that a model and a file do not share."""

import dataclasses
import re
from collections.abc import Sequence

Shape = tuple[int, ...]
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
  for (name, in_file, wanted, reason), numbers in groups.items():
    name = str(name).replace("{}", _ranges(numbers))
    rows.append((name, _shown(in_file), _shown(wanted), str(reason)))
  if not any(row[3] for row in rows[1:]):
    rows = [(*row[:3], "") for row in rows]
  widths = [max(len(row[i]) for row in rows) for i in range(4)]
  return "\n".join(
    "  ".join(
      cell.ljust(width) for cell, width in zip(row, widths, strict=True)
    ).rstrip()
    for row in rows
  )


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
