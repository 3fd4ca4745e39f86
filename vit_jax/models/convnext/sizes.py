"""Sizes of ConvNeXts, named or set explicitly."""

import dataclasses
from typing import Any

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.suggestions import did_you_mean

# Variant -> blocks of each stage, channels of the first; they double with each
# stage. facebookresearch/ConvNeXt and ConvNeXt-V2; atto to nano as version 1
# are timm's.
VARIANTS = {
  "atto": ((2, 2, 6, 2), 40),
  "femto": ((2, 2, 6, 2), 48),
  "pico": ((2, 2, 6, 2), 64),
  "nano": ((2, 2, 8, 2), 80),
  "T": ((3, 3, 9, 3), 96),
  "S": ((3, 3, 27, 3), 96),
  "B": ((3, 3, 27, 3), 128),
  "L": ((3, 3, 27, 3), 192),
  "XL": ((3, 3, 27, 3), 256),
  "H": ((3, 3, 27, 3), 352),
}
EXPANSION = 4  # Factor on the channels between a block's two dense layers.
KERNEL = 7  # Side of the depthwise filters, pixels.


@dataclasses.dataclass(frozen=True)
class ConvNeXtSize:
  """The numbers that fix all shapes.

  Attributes:
    depths: Blocks of each stage.
    widths: Channels of each stage.
    stem_stride: Side and stride of the first convolution, pixels.
    version: 1, or 2 with global response normalisation.
  """

  depths: tuple[int, ...]
  widths: tuple[int, ...]
  stem_stride: int
  version: int

  @property
  def stride(self) -> int:
    """Distance between neighbouring places of the last map, in pixels."""
    return self.stem_stride * 2 ** (len(self.depths) - 1)


def convnext(model: schema.Model) -> ConvNeXtSize:
  """The size of `model.variant`, with explicitly set numbers taking precedence.

  Raises:
    UserError: The variant is unknown.
  """
  if model.variant not in VARIANTS:
    hint = did_you_mean(model.variant, VARIANTS, 0.3)
    hint = f" Did you mean '{hint}'?" if hint else ""
    raise UserError(
      f"config.model.variant = '{model.variant}' is not a ConvNeXt.{hint}"
      f" Known: {', '.join(VARIANTS)}; for other numbers set"
      " config.model.depths and config.model.widths too."
    )
  depths, width = VARIANTS[model.variant]
  return ConvNeXtSize(
    depths=model.depths or depths,
    widths=model.widths or _doubling(width, len(depths)),
    stem_stride=model.stem_stride,
    version=model.version,
  )


def convnext_keys(size: ConvNeXtSize) -> dict[str, Any]:
  """Keys of `config.model` from which `convnext` makes this size."""
  known = {
    (depths, _doubling(width, len(depths))): name
    for name, (depths, width) in VARIANTS.items()
  }
  keys: dict[str, Any] = {
    "name": "convnext",
    "variant": known.get((size.depths, size.widths), "T"),
    "version": size.version,
    "stem_stride": size.stem_stride,
  }
  if (size.depths, size.widths) not in known:
    keys.update(depths=size.depths, widths=size.widths)
  return keys


def _doubling(width: int, num_stages: int) -> tuple[int, ...]:
  return tuple(width * 2**stage for stage in range(num_stages))
