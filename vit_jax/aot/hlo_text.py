"""Reading HLO: `compiled.as_text()` or `lowered.as_text("hlo")` as objects.

Only the parts needed for costs are parsed: instructions with their operands and
results, and calls between computations. Everything else stays text.
"""

import dataclasses
import functools
import math
import re
from collections.abc import Iterator

_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) (\(.*\) -> .* )?\{$")
_INSTRUCTION = re.compile(
  r"^\s+(ROOT )?%?([\w.\-]+) = (.*?) ([a-z][a-z0-9\-]*)\("
)
_SHAPE = re.compile(r"\b(pred|token|[a-z]+\d+[a-z0-9]*)\[([\d,]*)\]")
_COMMENT = re.compile(r"/\*.*?\*/")
_NAME = re.compile(r"%?([A-Za-z_][\w.\-]*)(?=,|$)")
_BITS = re.compile(r"\d+")


@dataclasses.dataclass(frozen=True)
class Shape:
  """An array's type, such as bf16[64,197,384]."""

  dtype: str
  dims: tuple[int, ...]

  @property
  def num_bytes(self) -> int:
    if self.dtype == "token":
      return 0
    bits = _BITS.search(self.dtype)  # pred has no digits and takes a byte.
    return math.ceil(math.prod(self.dims) * (int(bits[0]) if bits else 8) / 8)


@dataclasses.dataclass(frozen=True)
class Instruction:
  """A line of a computation.

  Attributes:
    name: Name without the '%'.
    shapes: Shape of the result; several if it is a tuple.
    opcode: Operation, such as 'fusion'.
    arguments: Text between the parentheses.
    attributes: Text after the parentheses.
  """

  name: str
  shapes: tuple[Shape, ...]
  opcode: str
  arguments: str
  attributes: str

  @property
  def operands(self) -> list[str]:
    """Returns the names of the instructions whose results it uses."""
    if self.opcode in ("constant", "parameter"):
      return []
    return _NAME.findall(_COMMENT.sub("", self.arguments))

  @property
  def num_bytes(self) -> int:
    return sum(shape.num_bytes for shape in self.shapes)

  def called(self, *attributes: str) -> list[str]:
    """Returns the computations in attributes such as 'calls' or 'body'."""
    names = []
    for attribute in attributes:
      found = re.search(
        rf"\b{attribute}=(\{{[^}}]*\}}|%?[\w.\-]+)", self.attributes
      )
      if found:
        names += re.findall(r"[\w.\-]+", found[1])
    return names


@dataclasses.dataclass(frozen=True)
class Computation:
  """Instructions by name, in order."""

  instructions: dict[str, Instruction]
  root: str

  def __iter__(self) -> Iterator[Instruction]:
    return iter(self.instructions.values())

  def __getitem__(self, name: str) -> Instruction:
    return self.instructions[name]

  def operand_shapes(self, instruction: Instruction) -> tuple[Shape, ...]:
    """Returns the types of an instruction's operands, with tuples flattened."""
    return tuple(
      shape for name in instruction.operands for shape in self[name].shapes
    )

  @functools.cached_property
  def parameters(self) -> dict[int, str]:
    """Returns the names of the parameters by number."""
    return {int(i.arguments): i.name for i in self if i.opcode == "parameter"}


@dataclasses.dataclass(frozen=True)
class Module:
  """A program: its computations by name, and its entry computation."""

  computations: dict[str, Computation]
  entry: str

  def __getitem__(self, name: str) -> Computation:
    return self.computations[name]


def parse(text: str) -> Module:
  """Reads the text of a compiled module.

  Raises:
    ValueError: The text has no entry computation.
  """
  computations, entry = {}, None
  name, instructions, root = None, {}, ""
  for line in text.splitlines():
    header = _COMPUTATION.match(line)
    if header:
      name, instructions, root = header[2], {}, ""
      entry = name if header[1] else entry
    elif line.startswith("}") and name is not None:
      computations[name] = Computation(instructions, root)
      name = None
    elif name is not None and (found := _INSTRUCTION.match(line)):
      instruction = _instruction(line, found)
      instructions[instruction.name] = instruction
      root = instruction.name if found[1] else root
  if entry is None:
    raise ValueError("The text has no ENTRY computation; is it HLO?")
  return Module(computations, entry)


def _instruction(line: str, found: re.Match[str]) -> Instruction:
  depth, end = 1, found.end()
  while depth and end < len(line):
    depth += {"(": 1, ")": -1}.get(line[end], 0)
    end += 1
  return Instruction(
    name=found[2],
    shapes=tuple(
      Shape(dtype, tuple(int(dim) for dim in dims.split(",") if dim))
      for dtype, dims in _SHAPE.findall(_COMMENT.sub("", found[3]))
    ),
    opcode=found[4],
    arguments=line[found.end() : end - 1],
    attributes=line[end:],
  )
