"""Preprocessing of images in the words of timm's `pretrained_cfg`.

timm resizes to a square ('squash') or the shorter side ('center'), and crops
the middle; it works on images of Pillow, which smooths whatever it shrinks and
decodes JPEG exactly, where TensorFlow's decoder is quicker.
"""

import math
from typing import Any

from vit_jax.weights import op_strings
from vit_jax.weights.fields import COUNTS, NUMBER, TEXT, Fields

_MODES = ("center", "squash")
_BILINEAR, _BICUBIC, _AREA = "bilinear", "bicubic", "area"
# timm's names of the ways to resize -> ours; 'random' is none in evaluations.
_METHODS = {
  "bilinear": _BILINEAR,
  "bicubic": _BICUBIC,
  "random": _BICUBIC,
  "box": _AREA,
  "hamming": _AREA,
}
# Pillow's box takes whole pixels only: nearest to means of areas up to this
# side, in pixels, and beyond it Hamming's window is.
_BOX = 64


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
  """The ops of timm's evaluation: resize by 1 / crop_pct, crop the centre.

  Args:
    settings: The `pretrained_cfg`.

  Returns:
    The ops, and a sentence about each difference that remains.

  Raises:
    UserError: A value is damaged, or `crop_mode` is another.
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
  """Side of the crop over that of the image."""
  part = settings.get("crop_pct", NUMBER, 0.875)
  if not 0 < part <= 1:
    raise settings.refusal("crop_pct", "is not above 0 and at most 1")
  return part


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
