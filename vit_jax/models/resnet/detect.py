"""Detection of a BiT ResNet from the names and shapes of its parameters."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from vit_jax.models.detection import Detected, Shape, columns, shape_of, units
from vit_jax.models.resnet import sizes

_LAYER = re.compile(r"(root_conv|block\d+/unit\d+/([abc](_norm)?|proj))/")
_IMAGE_SIZE = 224


def matches(names: Iterable[str]) -> bool:
  """Tells whether `names` are parameters of a BiT, by our names.

  The stem of a hybrid has similar names, next to a Transformer's.
  """
  names = list(names)
  return not any(name.startswith("Transformer/") for name in names) and any(
    _LAYER.match(name) for name in names
  )


def detect(
  shapes: Mapping[str, Shape], path: str, said: Mapping[str, Any]
) -> Detected:
  """Detects the network; see `Family.detect`."""
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
  return Detected({**keys, **said}, assumed)
