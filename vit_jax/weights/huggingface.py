"""Hugging Face directories: config.json beside safetensors."""

from collections.abc import Mapping

import numpy as np
from etils import epath

from vit_jax.config import pixels
from vit_jax.errors import UserError
from vit_jax.weights import huggingface_vit, tensors, torch_layout
from vit_jax.weights.contract import Weights
from vit_jax.weights.fields import Fields

CONFIG = "config.json"
PREPROCESSOR = "preprocessor_config.json"

# What each family's own preprocessor does where no file says otherwise.
_NORMALIZE = {
  "vit": "minus_one_to_one",
  "deit": "imagenet",
  "vit_mae": "imagenet",
}
_FAMILIES = {name: huggingface_vit for name in huggingface_vit.PREFIXES}


def read(path: epath.PathLike) -> Weights:
  """The parameters of a directory, and the network that they are of.

  Args:
    path: the directory, or its safetensors file.

  Raises:
    UserError: a file is missing or damaged, or the network is not one of
      ours; the message says what in it is not.
  """
  path = epath.Path(path)
  file = path if path.suffix == tensors.SUFFIX else None
  directory = path.parent if file else path
  config = Fields.read(directory / CONFIG)
  name = config.text("model_type")
  if name not in _FAMILIES:
    raise config.refusal(
      "model_type", f"is not a family that is read: {', '.join(_FAMILIES)}"
    )
  family = _FAMILIES[name]
  found = _bare_names(
    tensors.read(file or directory), family.PREFIXES[name], family.file_name
  )
  found, assumed = family.select(config, found)
  model = family.architecture(config, found)
  normalize = _normalize(directory, name, assumed)
  model = model.model_copy(update={"normalize": normalize})
  return Weights(
    path=str(path),
    model=model,
    params=torch_layout.read(str(path), found, family.pairs(model)),
    class_names=_class_names(config, model.num_classes),
    assumed=tuple(assumed),
  )


def _bare_names(
  found: Mapping[str, np.ndarray], prefix: str, file_name
) -> dict[str, np.ndarray]:
  """Tensors by their names in files, without what a head puts before them."""
  bare = {}
  for name, tensor in found.items():
    new = file_name(name.removeprefix(prefix))
    if new in bare:
      raise UserError(f"The weights hold '{new}' twice, once as '{name}'.")
    bare[new] = tensor
  return bare


def _normalize(directory: epath.Path, family: str, assumed: list[str]) -> str:
  """config.model.normalize as the preprocessor's file says it."""
  path = directory / PREPROCESSOR
  if not path.exists():
    assumed.append(
      f"There is no {PREPROCESSOR}: pixels are normalised as the family"
      f" '{family}' does by default (model.normalize='{_NORMALIZE[family]}')."
    )
    return _NORMALIZE[family]
  config = Fields.read(path)
  mean, deviation = (0.0,), (1.0,)
  if config.flag("do_normalize", True):
    default = pixels.parse(_NORMALIZE[family])
    mean = config.numbers("image_mean", default[0])
    deviation = config.numbers("image_std", default[1])
  scale = 1.0
  if not config.flag("do_rescale", True):
    scale = 1 / 255
  elif "rescale_factor" in config:
    scale = 1 / (255 * config.number("rescale_factor"))
  return normalize_key(config, mean, deviation, scale)


def normalize_key(
  config: Fields,
  mean: tuple[float, ...],
  deviation: tuple[float, ...],
  scale: float = 1.0,
) -> str:
  """config.model.normalize for a file's statistics.

  Args:
    config: where they are from, for messages.
    mean: one number or three.
    deviation: one number or three.
    scale: of a pixel in [0, 1] per pixel of those the statistics are of.

  Raises:
    UserError: they are not of three channels, or out of range.
  """
  # Beyond the last bits of 1 / 255 and its like.
  mean, deviation = (
    tuple(float(f"{x * scale:.12g}") for x in (xs * 3 if len(xs) == 1 else xs))
    for xs in (mean, deviation)
  )
  try:
    return pixels.describe(mean, deviation)
  except ValueError as error:
    raise UserError(f"{config.path}: mean and deviation: {error}.") from None


def _class_names(
  config: Fields, num_classes: int | None
) -> tuple[str, ...] | None:
  """Names of the outputs, where config.json has some that say anything."""
  names = config.mapping("id2label").values
  if num_classes is None or len(names) != num_classes:
    return None
  if names.keys() != {str(i) for i in range(num_classes)}:
    return None
  if all(names[str(i)] == f"LABEL_{i}" for i in range(num_classes)):
    return None
  return tuple(str(names[str(i)]) for i in range(num_classes))
