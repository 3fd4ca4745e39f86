"""Image preprocessing according to the files next to a checkpoint."""

import dataclasses
import os
from collections.abc import Sequence

from etils import epath

from vit_jax import named_weights, weight_paths
from vit_jax.config import pixels
from vit_jax.errors import UserError
from vit_jax.weights import (
  huggingface_processor,
  op_strings,
  timm_config,
  timm_transform,
)
from vit_jax.weights.contract import Activation
from vit_jax.weights.fields import TEXT, Fields
from vit_jax.weights.huggingface_processor import OURS

OPEN_CLIP = "open_clip_config.json"
# Values of problem_type in config.json, by the function they stand for.
PROBLEM_TYPES = {
  "sigmoid": "multi_label_classification",
  "none": "regression",
}


@dataclasses.dataclass(frozen=True)
class ImageProcessor:
  """The intended use of a checkpoint, according to the files next to it.

  Attributes:
    preprocess: Host ops; omitted sizes are the model's. None if not stated.
    activation: Function that turns logits into probabilities; 'none' if they
      are predicted numbers.
    notes: A sentence about each thing the files ask for that the ops do not do.
  """

  preprocess: str | None = None
  activation: Activation = "softmax"
  notes: tuple[str, ...] = ()


def read(path: epath.PathLike) -> ImageProcessor:
  """Reads the config of timm, a Hugging Face preprocessor or open_clip.

  Args:
    path: File or directory of any published checkpoint, or FILE/NAME.

  Raises:
    UserError: One of the files is damaged, or asks for something that no ops
      do.
  """
  path, _ = weight_paths.parted(named_weights.local(os.fspath(path)))
  directory = weight_paths.folder(path)
  if directory is None:
    return ImageProcessor()
  preprocess, activation, notes = None, "softmax", ()
  config = timm_config.found(path)
  if config is not None:
    settings = timm_config.settings(config)
    if OURS in config:
      preprocess = config.get(OURS, TEXT)
    elif settings is not None:
      preprocess, notes = timm_transform.ops(settings)
    for name, problem_type in PROBLEM_TYPES.items():
      if config.values.get("problem_type") == problem_type:
        activation = name
  if preprocess is None:
    processor = huggingface_processor.find(directory)
    if processor is not None:
      preprocess, notes = huggingface_processor.ops(processor)
    elif (directory / OPEN_CLIP).exists():
      preprocess = _open_clip(Fields.read(directory / OPEN_CLIP))
  return ImageProcessor(preprocess, activation, notes)


def normalize_key(
  config: Fields,
  mean: Sequence[float],
  deviation: Sequence[float],
  scale: float = 1.0,
) -> str:
  """Returns config.model.normalize for a file's statistics.

  Args:
    config: Origin of the statistics, for messages.
    mean: One number or three.
    deviation: One number or three.
    scale: Factor from the pixels that the statistics describe to [0, 1].

  Raises:
    UserError: The statistics are not those of three channels, or are out of
      range.
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


def _open_clip(config: Fields) -> str:
  """Returns open_clip's evaluation ops, at the network's image size."""
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
  # Any other name, such as 'random', also means bicubic there.
  return op_strings.text(
    1,
    1,
    is_squashed=mode == "squash",
    method="bilinear" if interpolation == "bilinear" else "bicubic",
    crop_rounding=op_strings.TORCHVISION,
  )
