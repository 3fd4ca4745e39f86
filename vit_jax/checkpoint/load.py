"""Models ready to use: from a checkpoint, or by name."""

from typing import Any

import flax.linen as nn

from vit_jax.checkpoint import initial
from vit_jax.models import build


def load(
  path: str, image_size: int | None = None, num_classes: int | None = None
) -> tuple[nn.Module, dict[str, Any]]:
  """A model and its parameters."""
  weights = initial.read(path)
  model = build.create(weights.model, num_classes=weights.model.num_classes)
  return model, weights.params
