"""A kernel as a compiled program calls it."""

import dataclasses

from vit_jax.aot.hlo_text import Shape


@dataclasses.dataclass(frozen=True)
class Call:
  """A call of a kernel on one device.

  Attributes:
    name: the `name` of its `pallas_call`.
    operands: types of what it takes.
    results: types of what it gives.
  """

  name: str
  operands: tuple[Shape, ...]
  results: tuple[Shape, ...]
