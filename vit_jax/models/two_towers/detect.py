"""Detection of a two-tower network from the names and shapes of parameters."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from vit_jax import registry
from vit_jax.errors import UserError
from vit_jax.models.detection import (
  Detected,
  Shape,
  columns,
  count,
  shape_of,
)
from vit_jax.models.text import sizes as text_sizes
from vit_jax.models.two_towers.section import SHARED
from vit_jax.models.two_towers.shapes import IMAGE, TEXT, below

_BLOCK = "text/Transformer/encoderblock_0"
_LAYERS = re.compile(r"text/Transformer/encoderblock_(\d+)/")


def matches(names: Iterable[str]) -> bool:
  """Tells whether `names` are parameters of two towers, by our names."""
  return any(name.startswith("text/") for name in names)


def detect(
  shapes: Mapping[str, Shape], path: str, said: Mapping[str, Any]
) -> Detected:
  """Finds the keys of both towers; see `models.family.Family.detect`."""
  said = dict(said)
  of_image, of_text = said.pop("image", {}), said.pop("text", {})
  tower = below(IMAGE, shapes)
  families = [
    registry.FAMILIES.get(name)
    for name in registry.FAMILIES.names()
    if name != "two_towers"
  ]
  family = next((f for f in families if f.matches(tower)), families[0])
  if "name" in of_image:  # The whole section; shapes add nothing.
    found = Detected(of_image)
  else:
    found = family.detect(tower, f"{path}: image tower", of_image)
  image = {"name": family.section().name, **found.keys}
  shared = {name: image.pop(name) for name in SHARED if name in image}
  shared.pop("num_classes", None)
  keys = {
    "name": "two_towers",
    **shared,
    "image": image,
    "text": {**_text_keys(shapes, path), **of_text},
    "embedding_size": _embedding_size(shapes, path),
    "bias_init": -10.0 if "logit_bias" in shapes else None,
    "image_projection": _projection(shapes, "image"),
    "text_projection": _projection(shapes, "text"),
    **said,
  }
  return Detected(keys, found.assumed)


def _text_keys(shapes: Mapping[str, Shape], path: str) -> dict[str, Any]:
  vocab_size, width = shape_of(shapes, TEXT + text_sizes.TOKENS, 2, path)
  _, length, _ = shape_of(shapes, TEXT + text_sizes.POSITIONS, 3, path)
  query = f"{_BLOCK}/MultiHeadDotProductAttention_0/query/kernel"
  _, num_heads, head_size = shape_of(shapes, query, 3, path)
  hidden = f"{_BLOCK}/MlpBlock_0/Dense_0/kernel"
  _, mlp_dim = shape_of(shapes, hidden, 2, path)
  if num_heads * head_size != width:
    raise UserError(
      f"{path}: the text tower has {num_heads} heads of {head_size} units,"
      f" which do not make up its width of {width}."
    )
  depth = count(_LAYERS, shapes, 0)
  keys = text_sizes.keys(text_sizes.Size(width, depth, num_heads, mlp_dim))
  if "text/MAPHead_0/probe" in shapes:
    keys["pool"] = "map"
  return {"vocab_size": vocab_size, "length": length, **keys}


def _projection(shapes: Mapping[str, Shape], tower: str) -> str:
  if f"{tower}_projection/kernel" not in shapes:
    return "none"
  biased = f"{tower}_projection/bias" in shapes
  return "affine" if biased else "linear"


def _embedding_size(shapes: Mapping[str, Shape], path: str) -> int | None:
  for tower in ("text", "image"):
    size = columns(shapes, f"{tower}_projection/kernel", path)
    if size is not None:
      return size
  return None
