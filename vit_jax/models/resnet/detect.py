"""Telling a BiT ResNet from the names and shapes of its parameters."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from vit_jax.models.detection import Detected, Shape, columns, shape_of, units
from vit_jax.models.resnet import sizes

_LAYER = re.compile(r"(root_conv|block\d+/unit\d+/([abc](_norm)?|proj))/")
_IMAGE_SIZE = 224


def matches(names: Iterable[str]) -> bool:
  """Tells whether these are parameters of a BiT, by our names.

  The stem of a hybrid has similar names, below a Transformer.
  """
  names = list(names)
  return not any(name.startswith("Transformer/") for name in names) and any(
    _LAYER.match(name) for name in names
  )


def detect(
  shapes: Mapping[str, Shape], path: str, said: Mapping[str, Any]
) -> Detected:
  """Tells the network; see `Family.detect`."""
  size = sizes.ResNetSize(
    blocks=units(shapes),
    width=shape_of(shapes, "root_conv/kernel", 4, path)[-1],
  )
  num_classes = columns(shapes, "head/kernel", path)
  assumed = []
  if "image_size" not in said:
    assumed.append(
      f"Images are taken to be of {_IMAGE_SIZE} pixels; any size will do."
    )
  keys = {"num_classes": num_classes, "image_size": _IMAGE_SIZE}
  keys |= sizes.resnet_keys(size)
  return Detected({**keys, **said}, _shapes(size, num_classes), assumed)


def _shapes(
  size: sizes.ResNetSize, num_classes: int | None
) -> dict[str, Shape]:
  """Every parameter of a BiT of this size."""
  wanted: dict[str, Shape] = {"root_conv/kernel": (7, 7, 3, size.width)}
  channels = size.width

  def norm(name: str, features: int) -> None:
    wanted[f"{name}/scale"] = wanted[f"{name}/bias"] = (features,)

  for stage, num_units in enumerate(size.blocks):
    hidden = size.width * 2**stage
    for unit in range(num_units):
      name = f"block{stage + 1}/unit{unit + 1:02d}"
      wanted[f"{name}/a/kernel"] = (1, 1, channels, hidden)
      wanted[f"{name}/b/kernel"] = (3, 3, hidden, hidden)
      wanted[f"{name}/c/kernel"] = (1, 1, hidden, 4 * hidden)
      if unit == 0:
        wanted[f"{name}/proj/kernel"] = (1, 1, channels, 4 * hidden)
      norm(f"{name}/a_norm", channels)
      norm(f"{name}/b_norm", hidden)
      norm(f"{name}/c_norm", hidden)
      channels = 4 * hidden
  norm("norm", channels)
  if num_classes:
    wanted["head/kernel"] = (channels, num_classes)
    wanted["head/bias"] = (num_classes,)
  return wanted
