"""Hugging Face directories: config.json and safetensors."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from etils import epath

from vit_jax import records
from vit_jax.config import pixels, schema
from vit_jax.errors import UserError
from vit_jax.weights import (
  huggingface_processor,
  image_processor,
  labels,
  stacking,
  state_dict,
  tensors,
  timm_config,
)
from vit_jax.weights.contract import Weights
from vit_jax.weights.fields import COUNT, FLAG, NUMBER, NUMBERS, TEXT, Fields
from vit_jax.weights.spellings import names
from vit_jax.weights.spellings.contract import CARD, HuggingFace
from vit_jax.weights.spellings.registry import (
  HUGGINGFACE,
  HUGGINGFACE_CLASSIFIERS,
  HUGGINGFACE_OTHERS,
)
from vit_jax.weights.spellings.unwritable import Unwritable, check_names

_CLASSIFIER = "classifier.weight"


def read(path: epath.PathLike, part: str | None = None) -> Weights:
  """Reads the parameters in a directory and detects their network.

  Args:
    path: The directory, or the weights file in it.
    part: As for `tensors.read`.

  Raises:
    UserError: A file is missing or damaged, or the network is not one of ours;
      the message names the unsupported part.
  """
  path = epath.Path(path)
  directory = path if path.is_dir() else path.parent
  config = Fields.read(directory / timm_config.NAME)
  kind = config.get("model_type", TEXT)
  if kind not in HUGGINGFACE.names():
    known = ", ".join(HUGGINGFACE.names())
    raise config.refusal(
      "model_type",
      HUGGINGFACE_OTHERS.get(kind, f"is not a family that is read: {known}"),
    )
  if config.get("num_channels", COUNT, 3) != 3:
    raise config.refusal(
      "num_channels", "is not 3: our networks take images of three channels"
    )
  family = HUGGINGFACE.get(kind)
  notes: list[str] = []
  required = family.names.required
  marks = [*required, *(family.prefix + name for name in required)]
  found = tensors.read(path, notes, part)
  found = state_dict.bare(found, str(path), marks, notes)
  if kind in HUGGINGFACE_CLASSIFIERS.names() and _CLASSIFIER in found:
    family = HUGGINGFACE_CLASSIFIERS.get(kind)
  found = _bare_names(found, family)
  beside, objective = family.beside(config, found)
  found, about_others = family.select(config, found)
  notes += about_others
  said = family.said(config, found)
  processor = huggingface_processor.find(directory)
  said |= _preprocessing(processor, kind, family, notes)
  model, params, assumed = names.read(str(path), found, family.names, said)
  _check_config(config, family, model)
  if processor is not None:
    notes += _other_size(processor, model.image_size)
  return Weights(
    path=str(path),
    model=model,
    params=params,
    class_names=_class_names(config, model.num_classes),
    assumed=(*notes, *assumed),
    beside=beside,
    objective=objective,
  )


def check(model: schema.Model) -> None:
  """Checks that Hugging Face has such a network.

  Raises:
    Unwritable: It does not; the message names the key.
  """
  _family(model)[1].config(model)


def write(
  directory: epath.PathLike, weights: Weights, card: str | None = None
) -> Sequence[str]:
  """Writes a directory that transformers loads with equal outputs.

  The network is its family's `ForImageClassification`, or the bare model if
  there is no head.

  Args:
    directory: A path that does not exist yet; it appears once it is complete.
    weights: The network and its parameters.
    card: Text of README.md; None for no README.md.

  Returns:
    A sentence about each difference in image preprocessing there.

  Raises:
    UserError: Hugging Face has no such network, or the directory cannot be
      written.
  """
  directory = epath.Path(directory)
  model = weights.model
  kind, family = _family(model)
  config = {**family.config(model), "model_type": kind}
  found = names.write(stacking.unstack_layers(weights.params), family.names)
  found = family.scale(model, found)
  check_names(found, f"Hugging Face's '{kind}'")
  if model.num_classes is not None:
    config |= _labels(weights.class_names, model.num_classes)
    # The classifier is next to the rest, which then has a prefix.
    found = {
      key if "classifier." in key else family.prefix + key: tensor
      for key, tensor in found.items()
    }
  if weights.activation in image_processor.PROBLEM_TYPES:
    config["problem_type"] = image_processor.PROBLEM_TYPES[weights.activation]
  mean, deviation = pixels.parse(model.normalize)
  resizing, notes = huggingface_processor.described(
    weights.preprocess, model.image_size
  )
  processor = {
    "do_convert_rgb": True,
    "do_resize": True,
    "resample": huggingface_processor.BILINEAR,
    **family.processor(model),
    **resizing,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": mean,
    "image_std": deviation,
  }
  with records.new_directory(directory) as partial:
    tensors.write(partial / tensors.FILE, found)
    records.write_json(partial / timm_config.NAME, config)
    records.write_json(partial / huggingface_processor.NAME, processor)
    if card is not None:
      (partial / CARD).write_bytes(card.encode())
  return notes


def _family(model: schema.Model) -> tuple[str, HuggingFace]:
  """Returns the `model_type` that a network is written as."""
  for kind in HUGGINGFACE.names():
    family = HUGGINGFACE.get(kind)
    if family.writes(model):
      return kind, family
  raise Unwritable(
    f"Hugging Face has no network such as config.model.name='{model.name}'"
  )


def _labels(
  class_names: Sequence[str] | None, num_classes: int
) -> dict[str, Mapping[str, str | int]]:
  """Returns config.json keys, from which transformers counts classes."""
  named = labels.named(class_names, num_classes)
  return {
    "id2label": {str(i): name for i, name in enumerate(named)},
    "label2id": {name: i for i, name in enumerate(named)},
  }


def _bare_names(
  found: Mapping[str, np.ndarray], family: HuggingFace
) -> dict[str, np.ndarray]:
  """Returns tensors by file name, without the prefix that a head adds."""
  bare: dict[str, np.ndarray] = {}
  for name, tensor in found.items():
    new = family.file_name(name.removeprefix(family.prefix))
    if new in bare:
      raise UserError(f"The weights hold '{new}' twice, once as '{name}'.")
    bare[new] = tensor
  return bare


def _check_config(
  config: Fields, family: HuggingFace, model: schema.Model
) -> None:
  """Rejects a config.json that does not describe its tensors' network."""
  for name, value in family.config(model).items():
    # The side of a square may be given twice.
    alike = (None, value, [value, value])
    unchecked = name in family.unchecked or name == "architectures"
    if not unchecked and config.values.get(name) not in alike:
      raise config.refusal(name, f"is not {value}, as its weights have it")


def _preprocessing(
  processor: Fields | None, kind: str, family: HuggingFace, notes: list[str]
) -> dict[str, Any]:
  """Returns the keys of config.model that the image processor states."""
  if processor is None:
    notes.append(
      f"There is no {huggingface_processor.NAME}: pixels are normalised as the"
      f" family '{kind}' does by default"
      f" (model.normalize='{family.normalize}')."
    )
    return {"normalize": family.normalize}
  said: dict[str, Any] = {"normalize": _normalize(processor, family.normalize)}
  size = huggingface_processor.image_size(processor)
  if family.says_image_size and size is not None:
    said["image_size"] = size
  return said


def _other_size(processor: Fields, image_size: int) -> list[str]:
  """Returns a sentence if the processor's image size is not the network's."""
  size = huggingface_processor.image_size(processor)
  if size in (None, image_size):
    return []
  return [
    f"The network is of images of {image_size} pixels, and so they are made"
    f" here; its {huggingface_processor.NAME} makes {size} of them."
  ]


def _normalize(config: Fields, default: str) -> str:
  """Returns config.model.normalize for an image processor."""
  mean, deviation = (0.0,), (1.0,)
  if config.get("do_normalize", FLAG, True):
    statistics = pixels.parse(default)
    mean = config.get("image_mean", NUMBERS, statistics[0])
    deviation = config.get("image_std", NUMBERS, statistics[1])
  factor = 1.0
  if config.get("do_rescale", FLAG, True):
    factor = config.get("rescale_factor", NUMBER, 1 / 255)
    if factor <= 0:
      raise config.refusal("rescale_factor", "is not positive")
  scale = 1 / (255 * factor)
  return image_processor.normalize_key(config, mean, deviation, scale)


def _class_names(
  config: Fields, num_classes: int | None
) -> tuple[str, ...] | None:
  """Returns the outputs' names; None if config.json only numbers them."""
  named = config.mapping("id2label").values
  numbers = [str(i) for i in range(num_classes or 0)]
  if not numbers or named.keys() != set(numbers):
    return None
  return labels.names([str(named[number]) for number in numbers])
