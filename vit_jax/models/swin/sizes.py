"""Sizes of Swin Transformers, named or set explicitly."""

import dataclasses
from typing import Any

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.suggestions import did_you_mean

# Variant -> blocks of each stage, heads of each stage, channels of the first
# stage. arXiv 2103.14030, section 3.3; the same for version 2.
VARIANTS = {
  "T": ((2, 2, 6, 2), (3, 6, 12, 24), 96),
  "S": ((2, 2, 18, 2), (3, 6, 12, 24), 96),
  "B": ((2, 2, 18, 2), (4, 8, 16, 32), 128),
  "L": ((2, 2, 18, 2), (6, 12, 24, 48), 192),
}
WINDOWS = {1: 7, 2: 8}  # Side of a window, in places, by version.
EXPANSION = 4  # Factor on the channels between a block's two dense layers.
POSITION_WIDTH = 512  # Hidden units between offsets and version 2's biases.


@dataclasses.dataclass(frozen=True)
class SwinSize:
  """The numbers that, with the image's size, determine all shapes.

  Attributes:
    depths: Blocks of each stage.
    num_heads: Heads of each stage.
    width: Channels of the first stage; they double with each stage.
    patch_size: Side of a patch, pixels.
    window_size: Side of a window, in places, unless the map is smaller.
    version: 1, or 2 with computed position biases.
  """

  depths: tuple[int, ...]
  num_heads: tuple[int, ...]
  width: int
  patch_size: int
  window_size: int
  version: int

  @property
  def stride(self) -> int:
    """Distance between neighbouring places of the last map, in pixels."""
    return self.patch_size * 2 ** (len(self.depths) - 1)

  def widths(self) -> tuple[int, ...]:
    """Channels of each stage."""
    return tuple(self.width * 2**i for i in range(len(self.depths)))

  def sides(self, image_size: int) -> tuple[int, ...]:
    """Side of each stage's map; padded if a stride does not divide it."""
    sides = [-(-image_size // self.patch_size)]
    for _ in self.depths[1:]:
      sides.append(-(-sides[-1] // 2))
    return tuple(sides)

  def windows(self, image_size: int) -> tuple[int, ...]:
    """Side of each stage's windows, at most that of its map."""
    return tuple(min(self.window_size, side) for side in self.sides(image_size))

  def shifts(self, image_size: int) -> tuple[int, ...]:
    """Places by which every other block of a stage shifts its windows."""
    return tuple(
      self.window_size // 2 if side > self.window_size else 0
      for side in self.sides(image_size)
    )

  def order_matters(self, image_size: int) -> bool:
    """Tells whether padding before or after shifting windows matters.

    It does not if a map has half a window left over, where the windows' mask
    separates the padding in either order.
    """

    def matters(shift: int, rest: int) -> bool:
      return rest > 0 and not rest == shift == self.window_size - shift

    numbers = zip(
      self.depths, self.shifts(image_size), self.sides(image_size), strict=True
    )
    return any(
      depth > 1 and shift > 0 and matters(shift, side % self.window_size)
      for depth, shift, side in numbers
    )


def swin(model: schema.Model) -> SwinSize:
  """The size of `model.variant`, with explicitly set numbers taking precedence.

  Raises:
    UserError: The variant is unknown.
  """
  if model.variant not in VARIANTS:
    hint = did_you_mean(model.variant, VARIANTS, 0.3)
    hint = f" Did you mean '{hint}'?" if hint else ""
    raise UserError(
      f"config.model.variant = '{model.variant}' is not a Swin.{hint}"
      f" Known: {', '.join(VARIANTS)}; for other numbers set"
      " config.model.depths, config.model.num_heads and config.model.width too."
    )
  depths, num_heads, width = VARIANTS[model.variant]
  return SwinSize(
    depths=model.depths or depths,
    num_heads=model.num_heads or num_heads,
    width=model.width or width,
    patch_size=model.patch_size,
    window_size=model.window_size or WINDOWS[model.version],
    version=model.version,
  )


def swin_keys(size: SwinSize) -> dict[str, Any]:
  """Keys of `config.model` from which `swin` makes this size."""
  known = {numbers: name for name, numbers in VARIANTS.items()}
  numbers = (size.depths, size.num_heads, size.width)
  keys: dict[str, Any] = {
    "name": "swin",
    "variant": known.get(numbers, "T"),
    "version": size.version,
    "patch_size": size.patch_size,
    "window_size": size.window_size,
  }
  if numbers not in known:
    keys.update(depths=size.depths, num_heads=size.num_heads, width=size.width)
  return keys
