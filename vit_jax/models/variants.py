"""Sizes of the named Vision Transformers, and the checks of `config.model`.

Imports neither jax nor flax, so that a command answers a bad value at once.
"""

import dataclasses
import difflib

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.paper import cost


@dataclasses.dataclass(frozen=True)
class Size:
  """The numbers that fix a network's shape; patch_size in pixels."""

  width: int
  depth: int
  num_heads: int
  mlp_dim: int
  patch_size: int


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


def resolve_size(model: schema.Model) -> Size:
  """The size of `model.variant`, with the numbers set by hand put over it.

  Raises:
    UserError: the variant's name is unknown or has no patch size.
  """
  name, slash, patch = model.variant.partition("/")
  if name not in VARIANTS:
    near = {known.lower(): known for known in VARIANTS}
    close = difflib.get_close_matches(name.lower(), near, n=1, cutoff=0.4)
    hint = f" Did you mean '{near[close[0]]}/{patch or 16}'?" if close else ""
    raise UserError(
      f"config.model.variant = '{model.variant}' is not known.{hint} Known"
      f" sizes: {', '.join(VARIANTS)}, each with '/' and a patch size in"
      " pixels."
    )
  # `isdecimal` alone also takes digits of other scripts.
  if not (slash and patch.isascii() and patch.isdecimal() and int(patch) > 0):
    raise UserError(
      f"config.model.variant = '{model.variant}' needs a patch size in"
      f" pixels after a slash, such as '{name}/16'."
    )
  width, depth, num_heads, mlp_dim = VARIANTS[name]
  return Size(
    width=model.width or width,
    depth=model.depth or depth,
    num_heads=model.num_heads or num_heads,
    mlp_dim=model.mlp_dim or mlp_dim,
    patch_size=int(patch),
  )


def check(model: schema.Model) -> None:
  """Checks the keys of a ViT against each other.

  Raises:
    UserError: naming the key of `config.model`, its value and what would do.
  """
  size = resolve_size(model)
  if size.width % size.num_heads:
    divisors = [n for n in range(1, size.width + 1) if size.width % n == 0]
    nearest = min(divisors, key=lambda n: abs(n - size.num_heads))
    raise UserError(
      f"config.model.width = {size.width} does not divide over"
      f" config.model.num_heads = {size.num_heads}; use {nearest} heads, or"
      f" width {_nearest_multiples(size.width, size.num_heads)}."
    )
  _check_image_size(model, size.patch_size)
  _check_position_embedding(model, size.width)
  if model.attention == "cudnn":
    _check_cudnn(model, size.width // size.num_heads)


def forward_flops(model: schema.Model, *, num_classes: int | None) -> int:
  """FLOPs of one image's forward pass, two per multiply-add."""
  size = resolve_size(model)
  return cost.vit_forward_flops(
    width=size.width,
    depth=size.depth,
    mlp_dim=size.mlp_dim,
    patch_size=size.patch_size,
    num_patches=(model.image_size // size.patch_size) ** 2,
    num_classes=num_classes,
    representation_size=representation_size(model),
    pool=model.pool,
    relative=model.pos_embedding == "relative",
  )


def representation_size(model: schema.Model) -> int | None:
  """Hidden units of the pre-training head, 'width' made a number."""
  if model.representation_size == "width":
    return resolve_size(model).width
  return model.representation_size


def _nearest_multiples(value: int, of: int) -> str:
  below = value // of * of
  return f"{below} or {below + of}" if below else f"{of}"


def _check_image_size(model: schema.Model, patch_size: int) -> None:
  size = model.image_size
  if size < patch_size:
    raise UserError(
      f"config.model.image_size = {size} is smaller than the patch of"
      f" '{model.variant}'; use {patch_size} or more, or a smaller patch."
    )
  if size % patch_size and not model.drop_remainder:
    raise UserError(
      f"config.model.image_size = {size} is not a multiple of the patch size"
      f" {patch_size} of '{model.variant}'; use"
      f" {_nearest_multiples(size, patch_size)}, or"
      f" config.model.drop_remainder=True, which leaves"
      f" {size % patch_size} pixels unused."
    )


def _check_position_embedding(model: schema.Model, width: int) -> None:
  kind = model.pos_embedding
  # sincos2d divides by width / 4 - 1 frequencies.
  of, least = {"learned_2d": (2, 2), "sincos2d": (4, 8)}.get(kind, (1, 1))
  if width % of or width < least:
    raise UserError(
      f"config.model.pos_embedding = '{kind}' needs a width of at least"
      f" {least} that is a multiple of {of}, but config.model.width ="
      f" {width}; use {_nearest_multiples(max(width, least), of)}."
    )
  if kind == "none" and model.pos_embedding_at != "stem":
    raise UserError(
      f"config.model.pos_embedding_at = '{model.pos_embedding_at}' has"
      " nothing to place, as config.model.pos_embedding = 'none'; leave it"
      " at 'stem'."
    )


def _check_cudnn(model: schema.Model, head_size: int) -> None:
  if model.dtype != "bfloat16":
    raise UserError(
      "config.model.attention = 'cudnn' computes in bfloat16 only, but"
      f" config.model.dtype = '{model.dtype}'; set it to 'bfloat16', or"
      " config.model.attention to 'xla'."
    )
  if head_size > 256 or head_size % 8:
    raise UserError(
      "config.model.attention = 'cudnn' takes heads of at most 256 units, a"
      f" multiple of 8; '{model.variant}' has {head_size}. Change"
      " config.model.num_heads, or use config.model.attention='xla'."
    )
  if model.pos_embedding == "relative":
    raise UserError(
      "config.model.attention = 'cudnn' does not take"
      " config.model.pos_embedding = 'relative'; use"
      " config.model.attention='xla'."
    )
