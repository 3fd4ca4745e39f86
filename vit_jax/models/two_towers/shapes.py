"""Names and shapes of every parameter of a two-tower network."""

import math
from collections.abc import Mapping
from typing import Any

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.models.detection import Shape
from vit_jax.models.text import sizes as text_sizes
from vit_jax.models.two_towers.section import SHARED

IMAGE, TEXT = "image/", "text/"


def below(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
  """Entries whose path starts with `prefix`, with the prefix removed."""
  return {
    name.removeprefix(prefix): value
    for name, value in values.items()
    if name.startswith(prefix)
  }


def image_tower(model: schema.Model) -> schema.Model:
  """Section `model` of the image tower alone, without a head."""
  shared = {name: getattr(model, name) for name in SHARED}
  return model.image.model_copy(update={**shared, "num_classes": None})


def embedding_size(model: schema.Model) -> int:
  """Length of the embeddings."""
  return model.embedding_size or text_sizes.size(model.text).width


def image_width(model: schema.Model) -> int:
  """Length of the image tower's feature."""
  tower = image_tower(model)
  of_head = registry.FAMILIES.get(tower.name).shapes(tower, 1)
  return of_head["head/kernel"][0]


def num_params(model: schema.Model, num_classes: int | None) -> int:
  """Number of parameters of the network."""
  return sum(map(math.prod, shapes(model, num_classes).values()))


def shapes(model: schema.Model, num_classes: int | None) -> dict[str, Shape]:
  """Shapes of all parameters, {path: shape}, with unstacked layers."""
  del num_classes
  tower = image_tower(model)
  of_image = registry.FAMILIES.get(tower.name).shapes(tower, None)
  size = embedding_size(model)
  wanted: dict[str, Shape] = {
    **{IMAGE + name: shape for name, shape in of_image.items()},
    **{
      TEXT + name: shape
      for name, shape in text_sizes.shapes(model.text).items()
    },
    "logit_scale": (),
  }
  if model.bias_init is not None:
    wanted["logit_bias"] = ()
  widths = {
    "image": image_width(model),
    "text": text_sizes.size(model.text).width,
  }
  for name, width in widths.items():
    kind = getattr(model, f"{name}_projection")
    if kind != "none":
      wanted[f"{name}_projection/kernel"] = (width, size)
    if kind == "affine":
      wanted[f"{name}_projection/bias"] = (size,)
  return wanted


def check_widths(model: schema.Model) -> None:
  """Raises UserError if a tower without a projection has another width."""
  size = embedding_size(model)
  widths = {
    "image": image_width(model),
    "text": text_sizes.size(model.text).width,
  }
  for name, width in widths.items():
    if getattr(model, f"{name}_projection") == "none" and width != size:
      raise UserError(
        f"config.model.{name}_projection = 'none', but the {name} tower's"
        f" feature has {width} numbers and embeddings have {size}"
        " (config.model.embedding_size, by default the text tower's width);"
        f" use config.model.{name}_projection='linear', or make them equal."
      )
