"""Preprocessing of images in the words of timm's `pretrained_cfg`.

timm resizes to a square ('squash') or the shorter side ('center'), and crops
the middle; it works on images of Pillow, which smooths whatever it shrinks and
decodes JPEG exactly, where TensorFlow's decoder is quicker.
"""

import math
from typing import Any

from vit_jax.weights.image_processor import op_arguments, op_name, parsed

_BILINEAR = "bilinear"
# Methods of ours -> timm's names; Pillow's box averages areas.
_INTERPOLATIONS = {_BILINEAR: _BILINEAR, "bicubic": "bicubic", "area": "box"}
# Ops between `decode` and the end -> timm's mode, and the first one's default.
_RESIZES = {
  ("resize",): ("squash", _BILINEAR),
  ("resize", "central_crop"): ("squash", _BILINEAR),
  ("resize_small", "central_crop"): ("center", "area"),
}
_JPEG = "JPEG files are decoded by Pillow there, by about a level of 255 apart"
_SIDES = ("size", "scale", "method", "antialias")
_SQUARES = ("size", "method", "antialias", "scale")


def described(
  preprocess: str | None, image_size: int
) -> tuple[dict[str, Any], tuple[str, ...]]:
  """Keys of `pretrained_cfg` that come nearest to host ops.

  Args:
    preprocess: Ops of an evaluation; None for a resize to a square.
    image_size: Side of the model's images, pixels.

  Returns:
    The keys, and a sentence about each difference that remains.
  """
  if preprocess is None:
    return _keys("squash", _BILINEAR, image_size, image_size), ()
  first, *calls = parsed(preprocess)
  names = tuple(map(op_name, calls))
  if op_name(first) != "decode" or names not in _RESIZES:
    note = f"images become squares there, which {preprocess!r} is not"
    return _keys("squash", _BILINEAR, image_size, image_size), (note, _JPEG)
  mode, method = _RESIZES[names]
  order = _SIDES if names[0] == "resize_small" else _SQUARES
  given = op_arguments(calls[0], order)
  method = given.get("method", method)
  side = round(given.get("scale", 1) * (given.get("size") or image_size))
  notes: tuple[str, ...] = (_JPEG,)
  if method != "area" and not given.get("antialias", False):
    notes = (
      "images that shrink are smoothed there, which"
      f" {names[0]!r} does with antialias=True only",
      _JPEG,
    )
  return _keys(mode, _INTERPOLATIONS[method], side, image_size), notes


def _keys(
  mode: str, interpolation: str, side: int, crop: int
) -> dict[str, Any]:
  """Keys with which timm makes an image of `side` and crops it to `crop`."""
  part = crop / side
  if math.floor(crop / part) != side:
    part = crop / (side + 0.5)
  return {
    "interpolation": interpolation,
    "crop_pct": part,
    "crop_mode": mode,
  }
