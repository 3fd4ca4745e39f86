"""Detection of a ConvNeXt from the names and shapes of its parameters."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from vit_jax.models.convnext import sizes
from vit_jax.models.detection import Detected, Shape, columns, count, shape_of

_LAYER = re.compile(r"stage\d+/block\d+/depthwise/")
_STAGE = re.compile(r"stage(\d+)/block\d+/")
_IMAGE_SIZE = 224


def matches(names: Iterable[str]) -> bool:
  """Tells whether `names` are parameters of a ConvNeXt, by our names."""
  return any(_LAYER.match(name) for name in names)


def detect(
  shapes: Mapping[str, Shape], path: str, said: Mapping[str, Any]
) -> Detected:
  """Detects the network; see `Family.detect`."""
  stages = range(1, count(_STAGE, shapes, 1) + 1)
  size = sizes.ConvNeXtSize(
    depths=tuple(
      count(re.compile(rf"stage{stage}/block(\d+)/"), shapes, 1)
      for stage in stages
    ),
    widths=tuple(
      shape_of(shapes, f"stage{stage}/block01/depthwise/kernel", 4, path)[-1]
      for stage in stages
    ),
    stem_stride=shape_of(shapes, "stem/conv/kernel", 4, path)[0],
    version=2 if "stage1/block01/grn/scale" in shapes else 1,
  )
  assumed = []
  if "image_size" not in said:
    assumed.append(
      f"Images are taken to be of {_IMAGE_SIZE} pixels; any size will do."
    )
  keys = {
    "num_classes": columns(shapes, "head/kernel", path),
    "image_size": _IMAGE_SIZE,
    **sizes.convnext_keys(size),
  }
  return Detected({**keys, **said}, assumed)
