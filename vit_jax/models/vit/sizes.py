"""Sizes of Vision Transformers, named or set explicitly.

Examples of names are 'B/16' and, for hybrids, 'R50+B/16', where the last number
is the total stride in pixels.
"""

import dataclasses
import re
from typing import Any

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.models.resnet.sizes import ROOT_WIDTH, stem_stride
from vit_jax.suggestions import did_you_mean

# (width, depth, num_heads, mlp_dim). B, L and H: table 1 of arXiv 2010.11929;
# Ti and S: arXiv 2012.12877; the others: google-research/big_vision.
VARIANTS = {
  "mu": (32, 1, 2, 128),
  "Ti": (192, 12, 3, 768),
  "S": (384, 12, 6, 1536),
  "M": (512, 12, 8, 2048),
  "B": (768, 12, 12, 3072),
  "L": (1024, 24, 16, 4096),
  "So400m": (1152, 27, 16, 4304),
  "H": (1280, 32, 16, 5120),
  "g": (1408, 40, 16, 6144),
  "G": (1664, 48, 16, 8192),
}

# Stem and number after the slash -> (units of each stage, total stride).
# Appendix B.4 of arXiv 2010.11929 and google-research/vision_transformer,
# where 'R+Ti/16' has patches of 8 x 8 after a root of stride 4.
STEMS = {
  ("R", 16): ((), 32),
  ("R26", 32): ((2, 2, 2, 2), 32),
  ("R50", 16): ((3, 4, 9), 16),
  ("R50", 32): ((3, 4, 6, 3), 32),
}


@dataclasses.dataclass(frozen=True)
class Size:
  """The numbers that determine a Vision Transformer's shapes.

  Attributes:
    width: Width D of the tokens.
    depth: Number of layers.
    num_heads: Number of heads.
    mlp_dim: Hidden units of the MLPs.
    patch_size: Side of the part of the image that becomes one token, pixels.
    stem_blocks: Units of each stage of the convolutional stem; () for its root
      alone, None for no stem.
    stem_width: Channels of the stem's root.
  """

  width: int
  depth: int
  num_heads: int
  mlp_dim: int
  patch_size: int
  stem_blocks: tuple[int, ...] | None = None
  stem_width: int = ROOT_WIDTH

  @property
  def stem_stride(self) -> int:
    """Pixels of the image per pixel of the map that is cut into patches."""
    return stem_stride(self.stem_blocks)

  def grid(self, image_size: int) -> int:
    """Patches along a side of the image; convolutions round up."""
    return -(-image_size // self.stem_stride) // (
      self.patch_size // self.stem_stride
    )


def vit(model: schema.Model) -> Size:
  """The size of `model.variant`, with explicitly set numbers taking precedence.

  Raises:
    UserError: The variant's name is unknown or has no patch size.
  """
  name, slash, patch = model.variant.partition("/")
  stem, plus, name = name.rpartition("+")
  if name not in VARIANTS:
    hint = did_you_mean(name, VARIANTS, 0.3)
    hint = f" Did you mean '{stem}{plus}{hint}/{patch or 16}'?" if hint else ""
    raise UserError(
      f"config.model.variant = '{model.variant}' is not known.{hint} Known"
      f" sizes: {', '.join(VARIANTS)}, each with '/' and a patch size in"
      " pixels."
    )
  # Not \d, which also matches digits of other scripts.
  if not (slash and re.fullmatch("[0-9]{1,4}", patch) and int(patch) > 0):
    raise UserError(
      f"config.model.variant = '{model.variant}' needs a patch size in"
      f" pixels after a slash, such as '{stem}{plus}{name}/16'."
    )
  blocks, patch_size = None, int(patch)
  if plus:
    if (stem, patch_size) not in STEMS:
      known = {f"{s}+{name}/{p}": s for s, p in STEMS}
      same_stem = [one for one, s in known.items() if s == stem]
      hint = did_you_mean(model.variant, same_stem or known, 0.0)
      raise UserError(
        f"config.model.variant = '{model.variant}' is not known. Did you mean"
        f" '{hint}'? Stems: {', '.join(known)}; others by"
        " config.model.stem_blocks."
      )
    blocks, patch_size = STEMS[stem, patch_size]
  if model.stem_blocks is not None:
    blocks = model.stem_blocks
  width, depth, num_heads, mlp_dim = VARIANTS[name]
  return Size(
    width=model.width or width,
    depth=model.depth or depth,
    num_heads=model.num_heads or num_heads,
    mlp_dim=model.mlp_dim or mlp_dim,
    patch_size=patch_size,
    stem_blocks=blocks,
    stem_width=model.stem_width,
  )


def has_cls(pool: str, cls_token: bool | None) -> bool:
  """Tells whether there is a class token; for None, if `pool` reads it."""
  return pool in ("cls", "cls_gap") if cls_token is None else cls_token


def num_read(pool: str, distillation: str) -> int | None:
  """Number of leading tokens that the head reads; None if it may read all."""
  if pool != "cls":
    return None
  return 2 if distillation == "average" else 1


def feature_size(model: schema.Model) -> int:
  """Length of the feature that tokens are pooled into."""
  return vit(model).width * (2 if model.pool == "cls_gap" else 1)


def num_prefix(model: schema.Model) -> int:
  """Number of tokens before the patches: class, distillation, registers."""
  return _num_with_positions(model) + model.registers


def num_prefix_positions(model: schema.Model) -> int:
  """Number of leading prefix tokens that have positions like the patches."""
  return _num_with_positions(model) if model.cls_position else 0


def _num_with_positions(model: schema.Model) -> int:
  has_distillation = model.distillation != "none"
  return has_cls(model.pool, model.cls_token) + has_distillation


def representation_size(model: schema.Model) -> int | None:
  """Hidden units of the pre-training head, with 'width' resolved."""
  if model.representation_size == "width":
    return vit(model).width
  return model.representation_size


def vit_keys(size: Size) -> dict[str, Any]:
  """Keys of `config.model` from which `vit` makes this size.

  The variant is the size's published name if it has one, otherwise the nearest
  in width with explicit values for the numbers that differ.
  """
  numbers = (size.width, size.depth, size.num_heads, size.mlp_dim)
  name = min(
    VARIANTS,
    key=lambda name: (
      VARIANTS[name] != numbers,
      abs(VARIANTS[name][0] - size.width),
    ),
  )
  keys: dict[str, Any] = {"variant": f"{name}/{size.patch_size}"}
  for (stem, patch), published in STEMS.items():
    if published == (size.stem_blocks, size.patch_size):
      keys["variant"] = f"{stem}+{name}/{patch}"
      break
  else:
    if size.stem_blocks is not None:
      keys["stem_blocks"] = size.stem_blocks
  if size.stem_blocks is not None and size.stem_width != ROOT_WIDTH:
    keys["stem_width"] = size.stem_width
  fields = ("width", "depth", "num_heads", "mlp_dim")
  for field, value, default in zip(
    fields, numbers, VARIANTS[name], strict=True
  ):
    if value != default:
      keys[field] = value
  return keys
