"""Names of the networks of EVA-02, arXiv 2303.11331."""

import re

from vit_jax.models.vit import sizes
from vit_jax.models.vit.section import ViTModel

NAMES = tuple(f"EVA02-{size}/14" for size in ("Ti", "S", "B", "L"))
_NAME = re.compile(r"EVA02-((Ti|S|B|L)/\d+)", re.ASCII)
# Networks with normalised hidden units.
_WITH_NORM = ("B", "L")


def find(name: str) -> ViTModel | None:
  """The network of a name, for images of 224 pixels; None if not an EVA-02."""
  match = _NAME.fullmatch(name)
  if not match:
    return None
  variant, size = match.groups()
  width, *_ = sizes.VARIANTS[size]
  return ViTModel(
    variant=variant,
    mlp_dim=width * 8 // 3,
    mlp="swiglu",
    mlp_norm=size in _WITH_NORM,
    key_bias=False,
    rope=True,
    pool="gap",
    cls_token=True,
    norm_after_pool=True,
    pos_embedding_resize="bicubic",
    normalize="clip",
  )
