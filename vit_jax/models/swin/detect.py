"""Detection of a Swin Transformer from its parameters' names and shapes."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from vit_jax.models.detection import Detected, Shape, columns, count, shape_of
from vit_jax.models.layers.position_resize import square_side
from vit_jax.models.swin import sizes

_LAYER = re.compile(r"stage\d+/block\d+/attention/")
_STAGE = re.compile(r"stage(\d+)/block\d+/")
# Side of a version 2 network's images, in places of its last map.
_LAST_SIDE = 8


def matches(names: Iterable[str]) -> bool:
  """Tells whether `names` are parameters of a Swin, by our names."""
  return any(_LAYER.match(name) for name in names)


def detect(
  shapes: Mapping[str, Shape], path: str, said: Mapping[str, Any]
) -> Detected:
  """Detects the network; see `Family.detect`."""
  stages = range(1, count(_STAGE, shapes, 1) + 1)
  version = 2 if "stage1/block01/attention/log_scale" in shapes else 1
  name, rank = ("log_scale", 1) if version == 2 else ("positions", 2)
  per_head = [
    shape_of(shapes, f"stage{stage}/block01/attention/{name}", rank, path)
    for stage in stages
  ]
  assumed = []
  windows = [sizes.WINDOWS[2]]
  if version == 1:
    windows = [((square_side(table[0]) or 1) + 1) // 2 for table in per_head]
  elif "window_size" not in said:
    assumed.append(
      f"Windows are taken to be of {windows[0]} x {windows[0]} places"
      f" (model.window_size={windows[0]}); no shape tells."
    )
  kernel = shape_of(shapes, "stem/conv/kernel", 4, path)
  size = sizes.SwinSize(
    depths=tuple(
      count(re.compile(rf"stage{stage}/block(\d+)/"), shapes, 1)
      for stage in stages
    ),
    num_heads=tuple(shape[-1] for shape in per_head),
    width=kernel[-1],
    patch_size=kernel[0],
    window_size=max(windows),
    version=version,
  )
  # Published networks divide their last map into one window, or a few of 8.
  image_size = size.stride * (windows[-1] if version == 1 else _LAST_SIDE)
  if "image_size" not in said:
    assumed.append(
      f"Images are taken to be of {image_size} pixels; other sizes will do."
    )
  keys = {
    "num_classes": columns(shapes, "head/kernel", path),
    "image_size": image_size,
    **sizes.swin_keys(size),
  }
  if version == 2:
    del keys["window_size"]  # Only `said` has it; None is assumed.
  return Detected({**keys, **said}, assumed)
