"""Sizes of Pyramid Vision Transformers, named or set explicitly."""

import dataclasses
from typing import Any

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.suggestions import did_you_mean

_WIDTHS = (64, 128, 320, 512)
_EXPANSIONS = (8, 8, 4, 4)
# Variant -> blocks of each stage, channels, hidden channels of the MLPs over
# outer channels. arXiv 2106.13797, Table 1.
VARIANTS = {
  "b0": ((2, 2, 2, 2), (32, 64, 160, 256), _EXPANSIONS),
  "b1": ((2, 2, 2, 2), _WIDTHS, _EXPANSIONS),
  "b2": ((3, 4, 6, 3), _WIDTHS, _EXPANSIONS),
  "b3": ((3, 4, 18, 3), _WIDTHS, _EXPANSIONS),
  "b4": ((3, 8, 27, 3), _WIDTHS, _EXPANSIONS),
  "b5": ((3, 6, 40, 3), _WIDTHS, (4, 4, 4, 4)),
}
HEADS = (1, 2, 5, 8)  # Heads of each stage, in all variants.
REDUCTIONS = (8, 4, 2, 1)  # Side of a map over that of its keys.
POOLED = 7  # Side of the keys' map with linear attention, places.
STEM_KERNEL, STEM_STRIDE = 7, 4  # First convolution, pixels.
KERNEL, STRIDE = 3, 2  # Other stages' convolutions, places.
MLP_KERNEL = 3  # Side of the depthwise filters in the MLPs, places.


@dataclasses.dataclass(frozen=True)
class PVTSize:
  """The numbers that fix all shapes.

  Attributes:
    depths: Blocks of each stage.
    widths: Channels of each stage.
    num_heads: Heads of each stage.
    reductions: Side of the map over that of its keys, for each stage.
    expansions: Hidden channels of the MLPs over outer channels, for each stage.
    linear_attention: True if keys are averages, 7 x 7 for any map.
  """

  depths: tuple[int, ...]
  widths: tuple[int, ...]
  num_heads: tuple[int, ...]
  reductions: tuple[int, ...]
  expansions: tuple[int, ...]
  linear_attention: bool

  @property
  def stride(self) -> int:
    """Distance between neighbouring places of the last map, in pixels."""
    return STEM_STRIDE * STRIDE ** (len(self.depths) - 1)

  def sides(self, image_size: int) -> tuple[int, ...]:
    """Side of each stage's map; padded if a stride does not divide it."""
    sides = [-(-image_size // STEM_STRIDE)]
    for _ in self.depths[1:]:
      sides.append(-(-sides[-1] // STRIDE))
    return tuple(sides)


def pvt(model: schema.Model) -> PVTSize:
  """The size of `model.variant`, with explicitly set numbers taking precedence.

  Raises:
    UserError: The variant is unknown.
  """
  if model.variant not in VARIANTS:
    hint = did_you_mean(model.variant, VARIANTS, 0.3)
    hint = f" Did you mean '{hint}'?" if hint else ""
    raise UserError(
      f"config.model.variant = '{model.variant}' is not a PVT.{hint}"
      f" Known: {', '.join(VARIANTS)}; for other numbers set"
      " config.model.depths, config.model.widths and config.model.num_heads"
      " too."
    )
  depths, widths, expansions = VARIANTS[model.variant]
  return PVTSize(
    depths=model.depths or depths,
    widths=model.widths or widths,
    num_heads=model.num_heads or HEADS,
    reductions=model.reductions or REDUCTIONS,
    expansions=model.expansions or expansions,
    linear_attention=model.linear_attention,
  )


def pvt_keys(size: PVTSize) -> dict[str, Any]:
  """Keys of `config.model` from which `pvt` makes this size."""
  known = {numbers: name for name, numbers in VARIANTS.items()}
  numbers = (size.depths, size.widths, size.expansions)
  keys: dict[str, Any] = {
    "name": "pvt",
    "variant": known.get(numbers, "b0"),
    "linear_attention": size.linear_attention,
  }
  if numbers not in known:
    keys.update(depths=size.depths, widths=size.widths)
    keys.update(expansions=size.expansions)
  if size.num_heads != HEADS:
    keys["num_heads"] = size.num_heads
  if size.reductions != REDUCTIONS:
    keys["reductions"] = size.reductions
  return keys
