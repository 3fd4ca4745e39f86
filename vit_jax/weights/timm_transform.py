"""Image preprocessing in terms of timm's `pretrained_cfg`.

timm resizes to a square ('squash') or by the shorter side ('center'), and crops
the centre. It works on Pillow images; Pillow always antialiases when shrinking
and decodes JPEG exactly, whereas TensorFlow's decoder is faster.
"""

import math
from typing import Any

from vit_jax.weights import op_strings
from vit_jax.weights.fields import COUNTS, NUMBER, TEXT, Fields

_MODES = ("center", "squash")
_BILINEAR, _BICUBIC, _AREA = "bilinear", "bicubic", "area"
# timm's names of resizing methods -> ours; evaluations do not use 'random'.
_METHODS = {
  "bilinear": _BILINEAR,
  "bicubic": _BICUBIC,
  "random": _BICUBIC,
  "box": _AREA,
  "hamming": _AREA,
}
# Pillow's box filter uses whole pixels only: it is closest to area averaging up
# to this side, in pixels; beyond it, the Hamming window is.
_BOX = 64


def described(
  preprocess: str | None, image_size: int
) -> tuple[dict[str, Any], tuple[str, ...]]:
  """Returns the keys of `pretrained_cfg` that are closest to host ops.

  Args:
    preprocess: Ops of an evaluation; None for a resize to a square.
    image_size: Side of the model's images, pixels.

  Returns:
    The keys, and a sentence about each remaining difference.
  """
  square = _keys("squash", _BILINEAR, image_size, image_size)
  if preprocess is None:
    return square, ()
  found = op_strings.resizing(preprocess, image_size)
  if found is None:
    note = f"images become squares there, which {preprocess!r} is not"
    return square, (note, op_strings.JPEG)
  notes = found.differences(op_strings.TORCHVISION)
  interpolation = found.method
  if found.method == _AREA:
    interpolation = "box" if found.side <= _BOX else "hamming"
    if interpolation != "box":
      notes = (*notes, "areas are averaged with other weights there")
  mode = "squash" if found.is_squashed else "center"
  return _keys(mode, interpolation, found.side, image_size), notes


def ops(settings: Fields) -> tuple[str, tuple[str, ...]]:
  """Returns timm's evaluation ops: resize by 1 / crop_pct, centre crop.

  Args:
    settings: The `pretrained_cfg`.

  Returns:
    The ops, and a sentence about each remaining difference.

  Raises:
    UserError: A value is damaged, or `crop_mode` is not supported.
  """
  size = settings.get("input_size", COUNTS, (3, 224, 224))[-1]
  mode = settings.get("crop_mode", TEXT, "center")
  if mode not in _MODES:
    raise settings.refusal(
      "crop_mode",
      "is neither 'center' nor 'squash', and no other one is read; set one of"
      " them",
    )
  interpolation = settings.get("interpolation", TEXT, _BICUBIC)
  notes: tuple[str, ...] = ()
  if interpolation not in _METHODS:
    notes = (
      f"Images are resized bicubically, where timm does by {interpolation!r}.",
    )
  text = op_strings.text(
    math.floor(size / crop_part(settings)),
    size,
    is_squashed=mode == "squash",
    method=_METHODS.get(interpolation, _BICUBIC),
    crop_rounding=op_strings.TORCHVISION,
  )
  return text, notes


def crop_part(settings: Fields) -> float:
  """Returns the ratio of the side of the crop to that of the image."""
  part = settings.get("crop_pct", NUMBER, 0.875)
  if not 0 < part <= 1:
    raise settings.refusal("crop_pct", "is not above 0 and at most 1")
  return part


def _keys(
  mode: str, interpolation: str, side: int, crop: int
) -> dict[str, Any]:
  """Returns keys with which timm resizes to `side` and crops to `crop`."""
  part = crop / side
  if math.floor(crop / part) != side:
    part = crop / (side + 0.5)
  return {
    "interpolation": interpolation,
    "crop_pct": part,
    "crop_mode": mode,
  }
