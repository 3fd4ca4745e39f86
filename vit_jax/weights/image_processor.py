"""Preprocessing of images, as told by the files beside a checkpoint."""

import ast
import dataclasses
import math
import os
from collections.abc import Sequence
from typing import Any

from etils import epath

from vit_jax import named_weights
from vit_jax.config import pixels
from vit_jax.errors import UserError
from vit_jax.weights import timm_config
from vit_jax.weights.contract import Activation
from vit_jax.weights.fields import COUNT, COUNTS, FLAG, NUMBER, TEXT, Fields

CONFIG = timm_config.NAME
PREPROCESSOR = "preprocessor_config.json"
OPEN_CLIP = "open_clip_config.json"
# Values of problem_type in config.json, by the function that they stand for.
PROBLEM_TYPES = {
  "sigmoid": "multi_label_classification",
  "none": "regression",
}
# Key of our own for ops that others cannot express; other readers ignore it.
OURS = "vit_jax_preprocess"

# Pillow's numbers of the ways to resize -> ours. All of Pillow's look at every
# pixel when they shrink, as ours do with antialias.
_BILINEAR, _BICUBIC = 2, 3
_METHODS = {1: "bicubic", _BILINEAR: "bilinear", _BICUBIC: "bicubic", 4: "area"}
# Ops after decoding that a preprocessor can say.
_RESIZES = (
  ["resize"],
  ["resize", "central_crop"],
  ["resize_small", "central_crop"],
)
# timm's names of the ways to resize -> ours, where they are not bicubic.
_OF_TIMM = {"bilinear": "bilinear", "box": "area"}
# Processors, by the start of their name, to which one number is the shorter
# side of an image; to the others it is the side of a square.
_SHORTEST_EDGE = ("CLIP", "Bit")
# ConvNeXt's processor (the one with crop_pct) makes squares of images from this
# side on, pixels, and crops smaller ones.
_SQUASHED = 384


@dataclasses.dataclass(frozen=True)
class ImageProcessor:
  """The use of a checkpoint, as the files beside it tell it.

  Attributes:
    preprocess: Host ops; omitted sizes are the model's. None if not told.
    activation: Function that turns logits into probabilities; 'none': they are
      numbers.
  """

  preprocess: str | None = None
  activation: Activation = "softmax"


def read(path: epath.PathLike) -> ImageProcessor:
  """Reads the config of timm, of a Hugging Face preprocessor or of open_clip.

  Args:
    path: File or directory of any published checkpoint.

  Raises:
    UserError: One of the files is damaged.
  """
  path = epath.Path(named_weights.local(os.fspath(path)))
  directory = path
  if not path.is_dir():
    if path.suffix != ".safetensors":
      return ImageProcessor()
    directory = path.parent
  preprocess, activation = None, "softmax"
  config = timm_config.found(path)
  if config is not None:
    if OURS in config:
      preprocess = config.get(OURS, TEXT)
    elif "pretrained_cfg" in config:
      preprocess = _timm(config.mapping("pretrained_cfg"))
    for name, problem_type in PROBLEM_TYPES.items():
      if config.values.get("problem_type") == problem_type:
        activation = name
  if preprocess is None and (directory / PREPROCESSOR).exists():
    preprocess = _hugging_face(Fields.read(directory / PREPROCESSOR))
  elif preprocess is None and (directory / OPEN_CLIP).exists():
    preprocess = _open_clip(Fields.read(directory / OPEN_CLIP))
  return ImageProcessor(preprocess, activation)


def resizing(preprocess: str | None, image_size: int) -> dict[str, Any]:
  """Keys of preprocessor_config.json that come nearest to host ops.

  `resize_small` or `resize`, and `central_crop` after it, are written as such,
  everything else as a resize to a square. Hugging Face always antialiases when
  it shrinks; the ops themselves are written, too, for `read`.

  Args:
    preprocess: Ops of an evaluation; None for a resize to a square.
    image_size: Side of the model's images, pixels.
  """
  keys: dict[str, Any] = {"do_resize": True, "resample": _BILINEAR}
  if preprocess is None:
    return keys
  keys[OURS] = preprocess
  first, *calls = parsed(preprocess)
  names = [op_name(call) for call in calls]
  if op_name(first) != "decode" or names not in _RESIZES:
    return keys
  order = ("size", "scale", "method")
  if names[0] == "resize":
    order = ("size", "method", "antialias", "scale")
  given = op_arguments(calls[0], order)
  side = round(given.get("scale", 1) * (given.get("size") or image_size))
  if given.get("method") == "bicubic":
    keys["resample"] = _BICUBIC
  if names[0] == "resize_small":
    keys["size"] = {"shortest_edge": side}
  elif side != image_size:
    keys["size"] = {"height": side, "width": side}
  if names[1:]:
    keys["do_center_crop"] = True
    keys["crop_size"] = {"height": image_size, "width": image_size}
  return keys


def normalize_key(
  config: Fields,
  mean: Sequence[float],
  deviation: Sequence[float],
  scale: float = 1.0,
) -> str:
  """config.model.normalize for a file's statistics.

  Args:
    config: Origin of the statistics, for messages.
    mean: One number or three.
    deviation: One number or three.
    scale: Factor from the pixels that the statistics are of to [0, 1].

  Raises:
    UserError: The statistics are not of three channels, or out of range.
  """
  # 12 digits: 1 / (255 * (1 / 255)) need not be 1.
  statistics = [
    tuple(float(f"{x * scale:.12g}") for x in (3 * xs if len(xs) == 1 else xs))
    for xs in (tuple(mean), tuple(deviation))
  ]
  try:
    return pixels.describe(*statistics)
  except ValueError as error:
    raise UserError(f"{config.path}: mean and deviation: {error}.") from None


def image_size(config: Fields) -> int | None:
  """Side of the images that leave the preprocessor; None if not told."""
  name = "size"
  if config.get("do_center_crop", FLAG, True) and "crop_size" in config:
    name = "crop_size"
  return _size(config, name)[0] if name in config else None


def parsed(preprocess: str) -> list[ast.expr]:
  """The ops of a string, each a name or a call."""
  return [
    ast.parse(op.strip(), mode="eval").body for op in preprocess.split("|")
  ]


def op_name(call: ast.expr) -> str:
  """The name of an op."""
  return ast.unparse(call.func if isinstance(call, ast.Call) else call)


def op_arguments(call: ast.expr, names: tuple[str, ...]) -> dict[str, Any]:
  """The given arguments of an op, by name."""
  if not isinstance(call, ast.Call):
    return {}
  given = dict(zip(names, call.args, strict=False))
  given |= {keyword.arg: keyword.value for keyword in call.keywords}
  return {name: ast.literal_eval(value) for name, value in given.items()}


def _timm(config: Fields) -> str:
  """The ops of timm's evaluation: resize by 1 / crop_pct, crop the centre."""
  size = config.get("input_size", COUNTS, (3, 224, 224))[-1]
  interpolation = config.get("interpolation", TEXT, "bicubic")
  method = _OF_TIMM.get(interpolation, "bicubic")
  scaled = math.floor(size / _part(config))
  is_squashed = config.get("crop_mode", TEXT, "center") == "squash"
  return _ops(scaled, size, is_squashed=is_squashed, method=method)


def _hugging_face(config: Fields) -> str | None:
  """The ops of an image processor; None if it does not resize."""
  if OURS in config:
    return config.get(OURS, TEXT)
  if not config.get("do_resize", FLAG, True) or "size" not in config:
    return None
  method = _METHODS.get(config.values.get("resample"), "bilinear")
  size, is_squashed = _size(config, "size")
  if isinstance(config.values["size"], int) and _takes_shorter_side(config):
    is_squashed = False
  if "crop_pct" in config:
    is_squashed = size >= _SQUASHED
    scaled = size if is_squashed else int(size / _part(config))
    return _ops(scaled, size, is_squashed=is_squashed, method=method)
  crop = size
  if config.get("do_center_crop", FLAG, False) and "crop_size" in config:
    crop, _ = _size(config, "crop_size")
  return _ops(size, crop, is_squashed=is_squashed, method=method)


def _open_clip(config: Fields) -> str:
  """The ops of open_clip's evaluation, at the size of the network's images."""
  if OURS in config:
    return config.get(OURS, TEXT)
  settings = config.mapping("preprocess_cfg")
  mode = settings.get("resize_mode", TEXT, "shortest")
  if mode not in ("shortest", "squash"):
    raise settings.refusal(
      "resize_mode",
      "is neither 'shortest' nor 'squash', and no other one is read; set one of"
      " them, or our own ops as a key of the file,"
      f' "{OURS}": "decode|resize"',
    )
  interpolation = settings.get("interpolation", TEXT, "bicubic")
  # Any other name, such as 'random', is bicubic there, too.
  method = "bilinear" if interpolation == "bilinear" else "bicubic"
  return _ops(1, 1, is_squashed=mode == "squash", method=method)


def _takes_shorter_side(config: Fields) -> bool:
  """True for a processor to which one number is the shorter side."""
  named = ("image_processor_type", "feature_extractor_type")  # Newer, older.
  kind = next((config.get(key, TEXT) for key in named if key in config), "")
  return kind.startswith(_SHORTEST_EDGE)


def _part(config: Fields) -> float:
  """Side of the crop over that of the image."""
  part = config.get("crop_pct", NUMBER, 0.875)
  if not 0 < part <= 1:
    raise config.refusal("crop_pct", "is not above 0 and at most 1")
  return part


def _size(config: Fields, name: str) -> tuple[int, bool]:
  """A side in pixels, and whether it is of a square."""
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


def _ops(size: int, crop: int, *, is_squashed: bool, method: str) -> str:
  """Ops that resize to `size` and crop to `crop`, which is the model's."""
  how = f"method='{method}', antialias=True"
  if is_squashed and size <= crop:
    return f"decode|resize({how})"
  if is_squashed:
    return f"decode|resize({size}, {how})|central_crop"
  scale = max(size / crop, 1)  # For other sizes of images, too.
  return f"decode|resize_small(scale={scale:.6g}, {how})|central_crop"
