"""Detection of a Pyramid Vision Transformer from its parameters."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from vit_jax.models.detection import Detected, Shape, columns, count, shape_of
from vit_jax.models.pvt import sizes

_LAYER = re.compile(r"stage\d+/block\d+/reduced_attention/")
_STAGE = re.compile(r"stage(\d+)/block\d+/")
_IMAGE_SIZE = 224


def matches(names: Iterable[str]) -> bool:
  """Tells whether `names` are parameters of a PVT, by our names."""
  return any(_LAYER.match(name) for name in names)


def detect(
  shapes: Mapping[str, Shape], path: str, said: Mapping[str, Any]
) -> Detected:
  """Detects the network; see `Family.detect`."""
  num_stages = count(_STAGE, shapes, 1)
  stages = [f"stage{i}" for i in range(1, num_stages + 1)]
  expand = [
    shape_of(shapes, f"{stage}/block01/mlp/expand/kernel", 2, path)
    for stage in stages
  ]
  sides = [
    shapes.get(f"{stage}/block01/reduced_attention/reduce/kernel", (0,))[0]
    for stage in stages
  ]
  linear_attention = sides[0] == 1
  usual_heads = (sizes.HEADS + sizes.HEADS[-1:] * num_stages)[:num_stages]
  usual_sides = (sizes.REDUCTIONS + (1,) * num_stages)[:num_stages]
  size = sizes.PVTSize(
    depths=tuple(
      count(re.compile(rf"{stage}/block(\d+)/"), shapes, 1) for stage in stages
    ),
    widths=tuple(width for width, _ in expand),
    num_heads=usual_heads,
    reductions=(
      usual_sides if linear_attention else tuple(side or 1 for side in sides)
    ),
    expansions=tuple(hidden // width for width, hidden in expand),
    linear_attention=linear_attention,
  )
  assumed = []
  if "num_heads" not in said:
    assumed.append(
      "The stages are taken to have"
      f" {', '.join(map(str, usual_heads))} heads (model.num_heads), as"
      " published; no shape tells."
    )
  if "image_size" not in said:
    assumed.append(
      f"Images are taken to be of {_IMAGE_SIZE} pixels; other sizes will do."
    )
  keys = {
    "num_classes": columns(shapes, "head/kernel", path),
    "image_size": _IMAGE_SIZE,
    **sizes.pvt_keys(size),
  }
  return Detected({**keys, **said}, assumed)
