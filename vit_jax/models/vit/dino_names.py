"""Names of the networks of facebookresearch/dino, dinov2 and dinov3."""

import re
from typing import Any

from vit_jax.models.vit.section import ViTModel

# README.md of DINO; table of models in that of DINOv2, each with and without
# registers.
NAMES = (
  *(f"DINO-{size}" for size in ("S/16", "S/8", "B/16", "B/8")),
  *(f"DINOv2-{size}/14" for size in ("S", "B", "L", "g")),
  *(f"DINOv2-{size}/14-registers" for size in ("S", "B", "L", "g")),
  *(f"DINOv3-{size}/16" for size in ("S", "S+", "B", "L", "L+", "H+", "7B")),
)
_NAME = re.compile(r"DINO(v2)?-(\w+/\d+)(-registers)?", re.ASCII)
# `vit_giant2`, different from the 'g' of other authors; SwiGLU's hidden units
# are two thirds of 4 D, rounded to a multiple of eight.
_GIANT = {"width": 1536, "num_heads": 24, "mlp_dim": 4096, "mlp": "swiglu"}
_THIRD = re.compile(r"DINOv3-(S\+?|B|L\+?|H\+|7B)(/\d+)", re.ASCII)
# dinov3/hub/backbones.py; a plus has a SwiGLU of as many hidden units as the
# GELU of its size, and H+ has heads of 64 units.
_HUGE = {"num_heads": 20}
_7B = {"width": 4096, "num_heads": 32, "mlp_dim": 8192, "mlp": "swiglu"}


def find(name: str) -> ViTModel | None:
  """The network of a name, for images of 224 pixels; None if not a DINO."""
  if match := _THIRD.fullmatch(name):
    return _third(*match.groups())
  match = _NAME.fullmatch(name)
  if not match:
    return None
  is_second, variant, registers = match.groups()
  keys: dict[str, Any] = {"variant": variant}
  keys |= {"gelu": "exact", "normalize": "imagenet"}
  keys["pos_embedding_resize"] = "bicubic_offset"
  if registers and not is_second:
    return None
  if is_second:
    keys |= {"layer_scale": 1e-5, "stochastic_depth": "constant"}
  if is_second and variant.startswith("g/"):
    keys |= _GIANT
  if registers:
    keys |= {"registers": 4, "pos_embedding_resize": "bicubic_antialias"}
  return ViTModel(**keys)


def _third(size: str, patch: str) -> ViTModel:
  """A DINOv3, whose patches have rotary positions alone."""
  variant = "g" if size == "7B" else size.rstrip("+")
  keys: dict[str, Any] = {"variant": f"{variant}{patch}"}
  if size.endswith("+"):
    keys["mlp"] = "swiglu"
  if size == "H+":
    keys |= _HUGE
  keys |= {**_7B, "qkv_bias": False} if size == "7B" else {"key_bias": False}
  return ViTModel(
    **keys,
    pos_embedding="none",
    rope=True,
    rope_base=100.0,
    rope_coordinates="unit",
    registers=4,
    layer_scale=1e-5,
    layer_norm_eps=1e-5,
    gelu="exact",
    normalize="imagenet",
    stochastic_depth="constant",
  )
