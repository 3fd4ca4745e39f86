"""Hugging Face directories: config.json beside safetensors."""

import contextlib
import dataclasses
import types
import uuid
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from etils import epath

from vit_jax import buckets, records
from vit_jax.config import pixels
from vit_jax.errors import UserError
from vit_jax.weights import (
  huggingface_bit,
  huggingface_vit,
  image_processor,
  stacking,
  tensors,
  torch_layout,
)
from vit_jax.weights.contract import Weights
from vit_jax.weights.fields import Fields
from vit_jax.weights.image_processor import CONFIG, PREPROCESSOR

CARD = "README.md"

_DEFAULT_IMAGE_SIZE = 224


@dataclasses.dataclass(frozen=True)
class Family:
  """A `model_type` of config.json.

  Attributes:
    module: reads and writes its config.json and knows its names.
    prefix: what stands before the names where there is a head.
    normalize: what its own preprocessor does by default.
  """

  module: types.ModuleType
  prefix: str
  normalize: str


FAMILIES = {
  "vit": Family(huggingface_vit, "vit.", "minus_one_to_one"),
  "deit": Family(huggingface_vit, "deit.", "minus_one_to_one"),
  "vit_mae": Family(huggingface_vit, "vit.", "minus_one_to_one"),
  "bit": Family(
    huggingface_bit,
    "bit.",
    "0.48145466,0.4578275,0.40821073/0.26862954,0.26130258,0.27577711",
  ),
}


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
  if name not in FAMILIES:
    raise config.refusal(
      "model_type", f"is not a family that is read: {', '.join(FAMILIES)}"
    )
  family = FAMILIES[name]
  found = _bare_names(tensors.read(file or directory), family)
  found, notes = family.module.select(config, found)
  model = family.module.architecture(config, found)
  keys, assumed = _preprocessing(directory, name, config)
  model = model.model_copy(update=keys)
  return Weights(
    path=str(path),
    model=model,
    params=torch_layout.read(str(path), found, family.module.pairs(model)),
    class_names=_class_names(config, model.num_classes),
    assumed=(*notes, *assumed),
  )


def write(
  directory: epath.PathLike, weights: Weights, card: str | None = None
) -> None:
  """Writes a directory that transformers loads, with equal outputs.

  `ViTForImageClassification` or `BitForImageClassification`, or `ViTModel` or
  `BitModel` where there is no head.

  Args:
    directory: must not exist yet; it appears once it is complete.
    weights: the network.
    card: its README.md.

  Raises:
    UserError: Hugging Face has no such network, or the directory cannot be
      written.
  """
  directory = epath.Path(directory)
  model = weights.model
  name = "bit" if model.name == "resnet" else "vit"
  family = FAMILIES[name]
  config = family.module.settings(model)
  params = stacking.unstack_layers(weights.params)
  found = torch_layout.write(params, family.module.pairs(model))
  found = family.module.scaled(model, found)
  if model.num_classes is not None:
    config |= _labels(weights.class_names, model.num_classes)
    # The classifier stands beside the rest, which then has a name.
    found = {
      key if key.startswith("classifier.") else family.prefix + key: tensor
      for key, tensor in found.items()
    }
  if weights.activation == "sigmoid":
    config["problem_type"] = image_processor.MULTI_LABEL
  mean, deviation = pixels.parse(model.normalize)
  processor = {
    **family.module.processor(model),
    **image_processor.resizing(weights.preprocess, model.image_size),
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": mean,
    "image_std": deviation,
  }
  with _complete_or_not_at_all(directory) as partial:
    tensors.write(partial / tensors.FILE, found)
    records.write_json(partial / CONFIG, config)
    records.write_json(partial / PREPROCESSOR, processor)
    if card is not None:
      (partial / CARD).write_bytes(card.encode())


def _labels(
  class_names: Sequence[str] | None, num_classes: int
) -> dict[str, Mapping[str, str | int]]:
  """Keys of config.json; transformers counts classes by them."""
  names = class_names or [f"LABEL_{i}" for i in range(num_classes)]
  return {
    "id2label": {str(i): name for i, name in enumerate(names)},
    "label2id": {name: i for i, name in enumerate(names)},
  }


@contextlib.contextmanager
def _complete_or_not_at_all(directory: epath.Path) -> Iterator[epath.Path]:
  """A directory to write to, which then takes the place of `directory`."""
  partial = directory.with_name(
    f".{directory.name}.{uuid.uuid4().hex[:8]}.partial"
  )
  try:
    if directory.exists():
      raise UserError(
        f"{directory} exists, and nothing is overwritten; remove it, or name"
        " another."
      )
    if buckets.is_bucket(directory):
      with buckets.local(directory) as made:
        made.mkdir()
        yield made
      return
    partial.mkdir(parents=True)
    try:
      yield partial
      partial.rename(directory)
    except BaseException:
      partial.rmtree(missing_ok=True)
      raise
  except OSError as error:
    raise UserError(
      f"{directory} cannot be written ({error.strerror or error})."
    ) from None


def _bare_names(
  found: Mapping[str, np.ndarray], family: Family
) -> dict[str, np.ndarray]:
  """Tensors by their names in files, without what a head puts before them."""
  bare: dict[str, np.ndarray] = {}
  for name, tensor in found.items():
    new = family.module.file_name(name.removeprefix(family.prefix))
    if new in bare:
      raise UserError(f"The weights hold '{new}' twice, once as '{name}'.")
    bare[new] = tensor
  return bare


def _preprocessing(
  directory: epath.Path, family: str, config: Fields
) -> tuple[dict[str, str | int], list[str]]:
  """Keys of config.model that the preprocessor's file gives; assumptions."""
  path = directory / PREPROCESSOR
  normalize = FAMILIES[family].normalize
  assumed = []
  if path.exists():
    processor = Fields.read(path)
    normalize = _normalize(processor, normalize)
  else:
    processor = Fields(str(path), {})
    assumed.append(
      f"There is no {PREPROCESSOR}: pixels are normalised as the family"
      f" '{family}' does by default (model.normalize='{normalize}')."
    )
  keys: dict[str, str | int] = {"normalize": normalize}
  if FAMILIES[family].module is huggingface_bit:
    size = image_processor.image_size(processor)
    if size is None:
      size = _DEFAULT_IMAGE_SIZE
      assumed.append(
        f"No file says the size of the images: {size} pixels are taken"
        f" (model.image_size={size}); any other does too."
      )
    keys["image_size"] = size
  return keys, assumed


def _normalize(config: Fields, default: str) -> str:
  """config.model.normalize for preprocessor_config.json."""
  mean, deviation = (0.0,), (1.0,)
  if config.flag("do_normalize", True):
    statistics = pixels.parse(default)
    mean = config.numbers("image_mean", statistics[0])
    deviation = config.numbers("image_std", statistics[1])
  factor = 1.0
  if config.flag("do_rescale", True):
    factor = config.number("rescale_factor", 1 / 255)
    if factor <= 0:
      raise config.refusal("rescale_factor", "is not positive")
  scale = 1 / (255 * factor)
  return image_processor.normalize_key(config, mean, deviation, scale)


def _class_names(
  config: Fields, num_classes: int | None
) -> tuple[str, ...] | None:
  """Names of the outputs, where config.json has some that say anything."""
  names = config.mapping("id2label").values
  numbers = [str(i) for i in range(num_classes or 0)]
  if not numbers or names.keys() != set(numbers):
    return None
  if all(names[number] == f"LABEL_{number}" for number in numbers):
    return None
  return tuple(str(names[number]) for number in numbers)
