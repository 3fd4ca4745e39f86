"""Image towers of Hugging Face's CLIP and SigLIP, without their texts."""

import dataclasses
from collections.abc import Callable
from typing import Any

from vit_jax.errors import UserError
from vit_jax.weights.fields import Fields
from vit_jax.weights.spellings.contract import HuggingFace
from vit_jax.weights.spellings.names import Names, Tensors
from vit_jax.weights.spellings.two_towers import huggingface

_VISION = "vision_model."
_IMAGE = "image/"
_PROJECTION = "visual_projection.weight"
_HEAD = "vision_model.head."
_CLASSIFIER = "classifier"
_NAMES = Names(
  rows=tuple(
    (ours.removeprefix(_IMAGE), theirs)
    for ours, theirs in huggingface.NAMES.rows
    if ours.startswith(_IMAGE)
  ),
  required=tuple(
    name for name in huggingface.NAMES.required if name.startswith(_VISION)
  ),
)
_CLASSIFIER_NAMES = dataclasses.replace(
  _NAMES, rows=(*_NAMES.rows, ("head", _CLASSIFIER))
)


def _file_name(name: str) -> str:
  """Returns the name in a file of both towers; newer files omit its start."""
  is_whole = name.startswith((_VISION, _CLASSIFIER)) or name == _PROJECTION
  return name if is_whole else _VISION + name


def _select(config: Fields, tensors: Tensors) -> tuple[Tensors, list[str]]:
  kept, notes = huggingface.select(config, tensors)
  if _PROJECTION in kept:
    notes.append(
      f"The projection to the texts' space ({_PROJECTION}) is left out."
    )
  return {n: x for n, x in kept.items() if n != _PROJECTION}, notes


def _said_clip(config: Fields, tensors: Tensors) -> dict[str, Any]:
  del tensors
  return {**_positions(config), **huggingface.clip_tower(config)}


def _said_siglip(config: Fields, tensors: Tensors) -> dict[str, Any]:
  if not huggingface.has_siglip_head(tensors):
    raise config.refusal(
      "model_type", "is of a SigLIP without its head, which is not read"
    )
  return {**_positions(config), **huggingface.siglip_tower(config)}


def _select_classifier(
  config: Fields, tensors: Tensors
) -> tuple[Tensors, list[str]]:
  kept, notes = _select(config, tensors)
  found = {n: x for n, x in kept.items() if not n.startswith(_HEAD)}
  if len(found) < len(kept):
    notes.append(
      "The head of the image tower, which the classifier does not use, is left"
      " out."
    )
  return found, notes


def _said_siglip_classifier(config: Fields, tensors: Tensors) -> dict[str, Any]:
  del tensors
  vision = config.mapping("vision_config")
  return {
    **_positions(vision),
    **huggingface.siglip_tower(vision),
    "pool": "gap",
  }


def _said_clip_classifier(config: Fields, tensors: Tensors) -> dict[str, Any]:
  del tensors
  raise UserError(
    f"{config.path}: its classifier takes the mean of patches that are not"
    " normalised after the last layer, unlike our networks; save the image"
    " tower without it (CLIPVisionModel)."
  )


def _positions(config: Fields) -> dict[str, Any]:
  size = config.side("image_size", 224)
  return {"pos_embedding_resize": "bicubic", "image_size": size}


def _record(
  kind: str, normalize: str, said: Callable[[Fields, Tensors], dict[str, Any]]
) -> HuggingFace:
  return HuggingFace(
    # A Vision Transformer alone is written as one.
    writes=lambda model: False,
    prefix="",
    normalize=normalize,
    names=_NAMES,
    said=said,
    config=huggingface.vision_config,
    unchecked=frozenset({"hidden_act"}),
    processor=huggingface.processor(kind),
    file_name=_file_name,
    select=_select,
  )


CLIP = _record("CLIP", "clip", _said_clip)
SIGLIP = _record("SigLIP", "minus_one_to_one", _said_siglip)


def _under_classifier(
  tower: HuggingFace, said: Callable[[Fields, Tensors], dict[str, Any]]
) -> HuggingFace:
  return dataclasses.replace(
    tower,
    names=_CLASSIFIER_NAMES,
    said=said,
    select=_select_classifier,
    # The sizes are those of config.json's vision_config.
    config=lambda model: {},
  )


CLIP_CLASSIFIER = _under_classifier(CLIP, _said_clip_classifier)
SIGLIP_CLASSIFIER = _under_classifier(SIGLIP, _said_siglip_classifier)
