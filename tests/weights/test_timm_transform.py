"""What timm's settings of preprocessing say of host ops."""

import math

import pytest

from vit_jax.weights import timm_transform


@pytest.mark.parametrize(
  ("ops", "mode", "interpolation", "side", "is_otherwise"),
  [
    (None, "squash", "bilinear", 24, False),
    ("decode|resize", "squash", "bilinear", 24, True),
    ("decode|resize(antialias=True)", "squash", "bilinear", 24, False),
    (
      "decode|resize(32, method='bicubic', antialias=True)|central_crop",
      "squash",
      "bicubic",
      32,
      False,
    ),
    ("decode|resize_small(29)|central_crop", "center", "box", 29, True),
    (
      "decode|resize_small(29, rounding='down')|central_crop(24, 'nearest')",
      "center",
      "box",
      29,
      False,
    ),
    # The middle of 33 pixels less 24 is rounded, of 32 it is not.
    (
      "decode|resize(33, antialias=True)|central_crop",
      "squash",
      "bilinear",
      33,
      True,
    ),
    (
      "decode|resize_small(65, rounding='down')|central_crop(24, 'nearest')",
      "center",
      "hamming",
      65,
      True,
    ),
    (
      "decode|resize_small(scale=1.143, method='bilinear')|central_crop",
      "center",
      "bilinear",
      27,
      True,
    ),
    ("decode|central_crop", "squash", "bilinear", 24, True),
  ],
)
def test_timm_resizes_and_crops_as_the_ops_do(
  ops, mode, interpolation, side, is_otherwise
):
  keys, notes = timm_transform.described(ops, 24)
  assert (keys["crop_mode"], keys["interpolation"]) == (mode, interpolation)
  # timm's own formula.
  assert math.floor(24 / keys["crop_pct"]) == side
  others = [note for note in notes if "JPEG" not in note]
  assert bool(others) == is_otherwise
  assert (notes != tuple(others)) == (ops is not None)


def test_no_side_is_rounded_away():
  for side in range(24, 400):
    ops = f"decode|resize_small({side})|central_crop"
    keys, _ = timm_transform.described(ops, 24)
    assert math.floor(24 / keys["crop_pct"]) == side
