"""A checkpoint's network prepared for figures, and its token positions."""

import dataclasses
from typing import Any

import flax.linen as nn

from vit_jax.config import schema
from vit_jax.models import build
from vit_jax.pretrained import load
from vit_jax.weights import stacking
from vit_jax.weights.contract import Weights


@dataclasses.dataclass(frozen=True)
class Network:
  """A network and its parameters.

  Attributes:
    module: Network that runs its layers one by one, so that a layer's attention
      maps need not be kept for the next.
    params: Nested dict of NumPy arrays.
    grid: Number of rows and columns of patches, or of a ResNet's last map.
    stride: Image pixels between neighbours in the grid.
    num_extra_tokens: Number of tokens before the patches: a cls token, a
      distillation token, registers.
  """

  module: nn.Module
  params: dict[str, Any]
  grid: tuple[int, int]
  stride: int
  num_extra_tokens: int

  @property
  def has_attention(self) -> bool:
    return build.family_of(self.module).has_attention


def of_weights(weights: Weights) -> Network:
  """Builds the network of a checkpoint that has been read."""
  model = unrolled(weights.model)
  module = build.create(model, num_classes=model.num_classes)
  family = build.family_of(module)
  side, stride = family.grid(model)
  return Network(
    module=module,
    params=stacking.unstack_layers(weights.params),
    grid=(side, side),
    stride=stride,
    num_extra_tokens=family.num_prefix_tokens(model),
  )


def unrolled(model: schema.Model) -> schema.Model:
  """Returns the network with layers one by one, computed on any device."""
  model = model.updated(scan_layers=False, **load.ANY_DEVICE)
  if (text := getattr(model, "text", None)) is None:
    return model
  text = text.model_copy(update={"scan_layers": False})
  return model.model_copy(update={"text": text})
