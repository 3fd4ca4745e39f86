"""The numbers that determine a text transformer's shapes."""

import dataclasses
import math
from typing import Any

from vit_jax.errors import UserError
from vit_jax.models.detection import Shape
from vit_jax.models.text.section import TextModel
from vit_jax.models.vit import shapes as vit_shapes
from vit_jax.models.vit.sizes import VARIANTS
from vit_jax.suggestions import did_you_mean

TOKENS = "token_embedding/embedding"
POSITIONS = "pos_embedding"
_NUMBERS = ("width", "depth", "num_heads", "mlp_dim")


@dataclasses.dataclass(frozen=True)
class Size:
  """The numbers of a text transformer; see the keys of `config.model.text`."""

  width: int
  depth: int
  num_heads: int
  mlp_dim: int


def size(text: TextModel) -> Size:
  """The size of the variant, with explicitly set numbers taking precedence.

  Raises:
    UserError: The variant is unknown, or its heads do not divide its width.
  """
  if text.variant not in VARIANTS:
    near = did_you_mean(text.variant, VARIANTS, 0.0)
    raise UserError(
      f"config.model.text.variant = '{text.variant}' is not known. Did you mean"
      f" '{near}'? Known: {', '.join(VARIANTS)}."
    )
  numbers = {
    name: getattr(text, name) or default
    for name, default in zip(_NUMBERS, VARIANTS[text.variant], strict=True)
  }
  found = Size(**numbers)
  if found.width % found.num_heads:
    raise UserError(
      f"config.model.text.width = {found.width} does not divide over"
      f" config.model.text.num_heads = {found.num_heads}; change one of them."
    )
  return found


def keys(found: Size) -> dict[str, Any]:
  """Keys of `config.model.text` from which `size` makes this size."""
  numbers = dataclasses.astuple(found)
  for name, published in VARIANTS.items():
    if published == numbers:
      return {"variant": name}
  return {"variant": "B", **dataclasses.asdict(found)}


def reads_one(pool: str) -> bool:
  """Tells whether the feature of a text comes from one of its tokens."""
  return pool in ("last", "eot")


def shapes(text: TextModel) -> dict[str, Shape]:
  """Shapes of all parameters, {path: shape}, with unstacked layers."""
  found = size(text)
  width = found.width
  wanted: dict[str, Shape] = {
    TOKENS: (text.vocab_size, width),
    POSITIONS: (1, text.length, width),
  }
  for i in range(found.depth):
    wanted |= vit_shapes.block(f"Transformer/encoderblock_{i}", found)
  wanted |= vit_shapes.norm("Transformer/encoder_norm", width)
  if text.pool == "map":
    wanted |= vit_shapes.map_head(found)
  return wanted


def num_params(text: TextModel) -> int:
  """Number of parameters of the tower, without a projection."""
  return sum(map(math.prod, shapes(text).values()))


def forward_flops(text: TextModel) -> int:
  """FLOPs of one text's forward pass, two per multiply-add.

  A causal tower's scores are counted in full, as all are computed.
  """
  found = size(text)
  length, width = text.length, found.width
  projections = 4 * length * width**2
  scores = 2 * length**2 * width
  mlp = 2 * length * width * found.mlp_dim
  macs = found.depth * (projections + scores + mlp)
  if text.pool == "map":
    macs += 2 * (1 + length) * width**2 + 2 * length * width
    macs += 2 * width * found.mlp_dim
  return 2 * macs


def unread_flops(text: TextModel) -> int:
  """FLOPs of the last layer for tokens that are not read.

  `forward_flops` counts them, but the network skips them.
  """
  if text.scan_layers or not reads_one(text.pool):
    return 0
  found = size(text)
  of_token = 2 * found.width * (found.width + text.length + found.mlp_dim)
  return 2 * (text.length - 1) * of_token
