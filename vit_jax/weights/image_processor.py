"""How images are prepared for a published checkpoint, as its files say it."""

import dataclasses
import math
from typing import Literal

from etils import epath

from vit_jax.weights import huggingface
from vit_jax.weights.fields import Fields

# Pillow's numbers of the ways to resize -> ours. All of Pillow's look at every
# pixel when they shrink, as ours do with antialias.
_METHODS = {1: "bicubic", 2: "bilinear", 3: "bicubic", 4: "area"}


@dataclasses.dataclass(frozen=True)
class ImageProcessor:
  """What the files beside a checkpoint say of its use.

  Attributes:
    preprocess: host ops; sizes left out are the model's. None: not said.
    activation: of the logits.
  """

  preprocess: str | None = None
  activation: Literal["softmax", "sigmoid"] = "softmax"


def read(path: epath.PathLike) -> ImageProcessor:
  """Reads preprocessor_config.json, or timm's config.json.

  Args:
    path: of any published checkpoint: a file or a directory.

  Raises:
    UserError: one of the files is damaged.
  """
  path = epath.Path(path)
  if not path.is_dir():
    if path.suffix != ".safetensors":
      return ImageProcessor()
    path = path.parent
  preprocess, activation = None, "softmax"
  if (path / huggingface.CONFIG).exists():
    config = Fields.read(path / huggingface.CONFIG)
    if "pretrained_cfg" in config:
      preprocess = _timm(config.mapping("pretrained_cfg"))
    if config.values.get("problem_type") == "multi_label_classification":
      activation = "sigmoid"
  if preprocess is None and (path / huggingface.PREPROCESSOR).exists():
    preprocess = _hugging_face(Fields.read(path / huggingface.PREPROCESSOR))
  return ImageProcessor(preprocess, activation)


def _timm(config: Fields) -> str:
  """The ops of timm's evaluation: resize by 1 / crop_pct, crop the centre."""
  size = config.integers("input_size", (3, 224, 224))[-1]
  interpolation = config.text("interpolation", "bicubic")
  method = interpolation if interpolation == "bilinear" else "bicubic"
  scaled = math.floor(size / config.number("crop_pct", 0.875))
  is_squashed = config.text("crop_mode", "center") == "squash"
  return _ops(scaled, size, is_squashed=is_squashed, method=method)


def _hugging_face(config: Fields) -> str | None:
  """The ops of an image processor; None if it does not resize."""
  if not config.flag("do_resize", True) or "size" not in config:
    return None
  method = _METHODS.get(config.values.get("resample"), "bilinear")
  size, is_squashed = _size(config, "size")
  crop = size
  if config.flag("do_center_crop", False) and "crop_size" in config:
    crop, _ = _size(config, "crop_size")
  return _ops(size, crop, is_squashed=is_squashed, method=method)


def _size(config: Fields, name: str) -> tuple[int, bool]:
  """A side in pixels, and whether it is of a square."""
  if not isinstance(config.values[name], dict):
    return config.side(name), True
  sides = config.mapping(name)
  if "shortest_edge" in sides:
    return sides.integer("shortest_edge"), False
  return sides.integer("height"), True


def _ops(size: int, crop: int, *, is_squashed: bool, method: str) -> str:
  """Ops that resize to `size` and crop to `crop`, which is the model's."""
  how = f"method='{method}', antialias=True"
  if is_squashed and size <= crop:
    return f"decode|resize({how})"
  if is_squashed:
    return f"decode|resize({size}, {how})|central_crop"
  return f"decode|resize_small({max(size, crop)}, {how})|central_crop"
