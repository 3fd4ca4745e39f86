"""A kernel as a compiled program calls it."""

import dataclasses

from vit_jax.aot.hlo_text import Shape


@dataclasses.dataclass(frozen=True)
class Call:
  """A call of a kernel on one device.

  Attributes:
    name: Value of `name` in its `pallas_call`.
    operands: Types of its operands.
    results: Types of its results.
  """

  name: str
  operands: tuple[Shape, ...]
  results: tuple[Shape, ...]
