"""Converts Hugging Face image processors to evaluation ops and back.

A key missing from a file has its class's default in transformers 5.23,
`transformers/models/*/image_processing_*.py`.
"""

from typing import Any

from etils import epath

from vit_jax.config import pixels
from vit_jax.weights import op_strings, timm_transform
from vit_jax.weights.fields import COUNT, FLAG, NUMBER, TEXT, Fields

NAME = "preprocessor_config.json"
# For images and texts, as transformers 5 writes it; takes precedence.
_WITH_TEXT = "processor_config.json"
# Our own key for ops that the format cannot express; other readers ignore it.
OURS = "vit_jax_preprocess"

# Pillow's numbers for resizing methods -> ours. All of Pillow's use every pixel
# when shrinking, as ours do with antialias.
BILINEAR, BICUBIC = 2, 3
_METHODS = {BILINEAR: "bilinear", BICUBIC: "bicubic", 4: "area", 5: "area"}
_LACKING = {0: "nearest neighbours", 1: "Lanczos' window"}
# ConvNeXt's processor (the one with crop_pct) squashes to a square at this side
# (in pixels) or more, and crops below it.
_SQUASHED = 384


def _statistics(normalize: str) -> dict[str, list[float]]:
  mean, deviation = pixels.parse(normalize)
  return {"image_mean": list(mean), "image_std": list(deviation)}


_OPENAI, _IMAGENET = _statistics("clip"), _statistics("imagenet")
_HALF = _statistics("minus_one_to_one")
_SQUARE = {"height": 224, "width": 224}
_CROPPED = {
  "size": {"shortest_edge": 224},
  "do_center_crop": True,
  "crop_size": _SQUARE,
}
# Start of a processor's name -> its defaults for keys missing from the file.
_CLASSES: dict[str, dict[str, Any]] = {
  "CLIP": {"resample": BICUBIC, **_CROPPED, **_OPENAI},
  "Bit": {"resample": BICUBIC, **_CROPPED, **_OPENAI},
  "Siglip": {"resample": BICUBIC, "size": _SQUARE, **_HALF},
  "ViT": {"resample": BILINEAR, "size": _SQUARE, **_HALF},
  "DeiT": {
    "resample": BICUBIC,
    "size": {"height": 256, "width": 256},
    "do_center_crop": True,
    "crop_size": _SQUARE,
    **_HALF,
  },
  "Beit": {
    "resample": BICUBIC,
    "size": _SQUARE,
    "do_center_crop": False,
    "crop_size": _SQUARE,
    **_HALF,
  },
  "ConvNext": {
    "resample": BICUBIC,
    "size": {"shortest_edge": 384},
    "crop_pct": 0.875,
    **_HALF,
  },
  "Pvt": {"resample": BICUBIC, "size": _SQUARE, **_IMAGENET},
}
# Processors for which a single number is the shorter side of the image; for the
# others it is the side of a square.
_SHORTEST_EDGE = ("CLIP", "Bit")


def find(directory: epath.Path) -> Fields | None:
  """Reads the image processor of a directory; None if there is none.

  Raises:
    UserError: The file is damaged.
  """
  config = None
  if (directory / _WITH_TEXT).exists():
    whole = Fields.read(directory / _WITH_TEXT)
    if "image_processor" in whole:
      config = whole.mapping("image_processor")
  if config is None and (directory / NAME).exists():
    config = Fields.read(directory / NAME)
  if config is None:
    return None
  defaults = _CLASSES.get(_class(config), {})
  given = {key: x for key, x in config.values.items() if x is not None}
  return Fields(config.path, {**defaults, **given})


def ops(config: Fields) -> tuple[str | None, tuple[str, ...]]:
  """Returns the ops of an image processor.

  Args:
    config: Result of `find`.

  Returns:
    The ops, or None if it neither resizes nor crops, and a sentence about each
    remaining difference.

  Raises:
    UserError: A value is damaged.
  """
  if OURS in config:
    return config.get(OURS, TEXT), ()
  is_cropped = config.get("do_center_crop", FLAG, False)
  if not config.get("do_resize", FLAG, True) or "size" not in config:
    return "decode|central_crop" if is_cropped else None, ()
  notes = []
  resample = config.get("resample", NUMBER, BILINEAR)
  method = _METHODS.get(resample, "bicubic")
  if resample not in _METHODS:
    name = _LACKING.get(resample, f"resample={resample:g}")
    notes.append(
      f"Images are resized bicubically, where {config.path} asks for {name}."
    )
  side, is_squashed = _size(config, "size")
  if isinstance(config.values["size"], int):
    is_squashed = _class(config) not in _SHORTEST_EDGE
  crop = side
  if "crop_pct" in config:
    is_squashed = side >= _SQUASHED
    if not is_squashed:
      side = int(crop / timm_transform.crop_part(config))
  elif is_cropped and "crop_size" in config:
    crop, _ = _size(config, "crop_size")
    if crop > side:
      notes.append(
        f"Images are resized to {crop} pixels, where {config.path} resizes to"
        f" {side} and adds a black border."
      )
  elif not is_squashed and not is_cropped:
    notes.append(
      f"Images are cropped to squares, where {config.path} keeps them whole."
    )
  text = op_strings.text(
    side,
    crop,
    is_squashed=is_squashed,
    method=method,
    crop_rounding=op_strings.HUGGING_FACE,
  )
  return text, tuple(notes)


def image_size(config: Fields) -> int | None:
  """Returns the side of the processor's output; None if not stated."""
  name = "size"
  if config.get("do_center_crop", FLAG, False) and "crop_size" in config:
    name = "crop_size"
  return _size(config, name)[0] if name in config else None


def described(
  preprocess: str | None, image_size: int
) -> tuple[dict[str, Any], tuple[str, ...]]:
  """Returns the preprocessor_config.json keys closest to host ops.

  `resize_small` or `resize`, optionally followed by `central_crop`, is written
  as it is, anything else as a resize to a square. The ops themselves are also
  written, for `ops`.

  Args:
    preprocess: Ops of an evaluation; None for those of the family's processor.
    image_size: Side of the model's images, pixels.

  Returns:
    The keys, and a sentence about each remaining difference.
  """
  if preprocess is None:
    return {}, ()
  square = {"height": image_size, "width": image_size}
  keys: dict[str, Any] = {
    "do_resize": True,
    "resample": BILINEAR,
    "size": square,
    "do_center_crop": False,
    OURS: preprocess,
  }
  found = op_strings.resizing(preprocess, image_size)
  if found is None:
    note = f"images become squares there, which {preprocess!r} is not"
    return keys, (note, op_strings.JPEG)
  notes = found.differences(op_strings.HUGGING_FACE)
  if found.method != "bilinear":
    keys["resample"] = BICUBIC
  if found.method == "area":
    notes = (*notes, "images are resized bicubically there, not by areas")
  keys["size"] = {"height": found.side, "width": found.side}
  if not found.is_squashed:
    keys["size"] = {"shortest_edge": found.side}
  if found.is_cropped:
    keys |= {"do_center_crop": True, "crop_size": square}
  return keys, notes


def _class(config: Fields) -> str:
  """Returns the start of the processor's class name; '' if not one of ours."""
  named = ("image_processor_type", "feature_extractor_type")  # Newer, older.
  name = next((config.get(key, TEXT) for key in named if key in config), "")
  return next((start for start in _CLASSES if name.startswith(start)), "")


def _size(config: Fields, name: str) -> tuple[int, bool]:
  """Returns a side in pixels, and whether it is that of a square."""
  if not isinstance(config.values[name], dict):
    return config.side(name), True
  sides = config.mapping(name)
  if "shortest_edge" in sides:
    return sides.get("shortest_edge", COUNT), False
  height, width = sides.get("height", COUNT), sides.get("width", COUNT)
  if height != width:
    raise config.refusal(
      name, "is not a square, and our models take square images only"
    )
  return height, True
