"""Sizes of Big Transfer's ResNets, named or set explicitly.

Names such as 'R50x1' give the depth and the width factor. Stems of hybrids
consist of the same units.
"""

import dataclasses
import re
from typing import Any

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.suggestions import did_you_mean

# Units of each stage of the ResNets. google-research/big_vision.
RESNETS = {
  26: (2, 2, 2, 2),
  50: (3, 4, 6, 3),
  101: (3, 4, 23, 3),
  152: (3, 8, 36, 3),
  200: (3, 24, 36, 3),
}

# Channels of a root with width factor 1, and channels that share group
# statistics.
ROOT_WIDTH = 64
NUM_GROUPS = 32


@dataclasses.dataclass(frozen=True)
class ResNetSize:
  """Units of each stage, and channels of the root."""

  blocks: tuple[int, ...]
  width: int


def stem_stride(blocks: tuple[int, ...] | None) -> int:
  """Stride of a stem: 4 for its root, 2 for every stage but the first."""
  return 1 if blocks is None else 4 * 2 ** max(0, len(blocks) - 1)


def resnet(model: schema.Model) -> ResNetSize:
  """The size of `model.variant`, with explicitly set numbers taking precedence.

  Raises:
    UserError: The variant is unknown.
  """
  match = re.fullmatch(r"R(\d{2,3})x([1-9]\d?)", model.variant, re.ASCII)
  if not match or int(match[1]) not in RESNETS:
    known = [f"R{depth}x1" for depth in RESNETS]
    hint = did_you_mean(model.variant, known, 0.3)
    hint = f" Did you mean '{hint}'?" if hint else ""
    raise UserError(
      f"config.model.variant = '{model.variant}' is not a ResNet.{hint}"
      f" Known: {', '.join(known)}, and any width factor after the x; for"
      " other numbers of units set config.model.blocks too."
    )
  return ResNetSize(
    blocks=model.blocks or RESNETS[int(match[1])],
    width=model.width or ROOT_WIDTH * int(match[2]),
  )


def resnet_keys(size: ResNetSize) -> dict[str, Any]:
  """Keys of `config.model` from which `resnet` makes this size."""
  known = {blocks: depth for depth, blocks in RESNETS.items()}
  factor = max(1, size.width // ROOT_WIDTH)
  keys: dict[str, Any] = {
    "name": "resnet",
    "variant": f"R{known.get(size.blocks, 50)}x{factor}",
  }
  if size.blocks not in known:
    keys["blocks"] = size.blocks
  if size.width != ROOT_WIDTH * factor:
    keys["width"] = size.width
  return keys
