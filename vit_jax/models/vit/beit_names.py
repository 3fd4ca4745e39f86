"""Names of the networks of microsoft/unilm's beit and beit2."""

import re
from typing import Any

from vit_jax.models.vit.section import ViTModel

# As for fine-tuning: a table of biases in every layer, mean of the patches.
NAMES = tuple(
  f"BEiT{version}-{size}/16" for version in ("", "v2") for size in ("B", "L")
)
_NAME = re.compile(r"BEiT(v2)?-(\w+/\d+)", re.ASCII)


def find(name: str) -> ViTModel | None:
  """The network of a name, for images of 224 pixels; None if not a BEiT."""
  match = _NAME.fullmatch(name)
  if not match:
    return None
  is_second, variant = match.groups()
  is_first_base = not is_second and variant.startswith("B/")
  keys: dict[str, Any] = {
    "variant": variant,
    "pool": "gap",
    "cls_token": True,
    "norm_after_pool": True,
    "key_bias": False,
    "pos_embedding": "relative_bias",
    "pos_embedding_at": "every_layer",
    "pos_embedding_resize": "geometric",
    "layer_scale": 0.1 if is_first_base else 1e-5,
    "gelu": "exact",
    "normalize": "imagenet" if is_second else "minus_one_to_one",
  }
  return ViTModel(**keys)
