"""The network that a file's parameters make up, in whatever form they came."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.weights import architecture, bit


def detect(
  params: Mapping[str, np.ndarray], path: str, said: Mapping[str, Any]
) -> tuple[schema.Model, list[str]]:
  """Tells the section `model` from names and shapes.

  Args:
    params: Parameters by our paths, layers not stacked.
    path: Path of the file, for messages.
    said: Keys of `schema.Model` that no shape tells, as the file has them.

  Returns:
    The section, and a sentence for each assumption.

  Raises:
    UserError: The parameters are not those of one network; with a table.
  """
  shapes = {name: array.shape for name, array in params.items()}
  infer = bit.infer if bit.is_resnet(shapes) else architecture.infer
  model, assumed = infer(shapes, path, said)
  family = registry.FAMILIES.get(model.name)
  if "drop_remainder" not in said and family.has_attention:
    _, patch_size = family.grid(model)
    left_over = model.image_size % patch_size
    model = model.model_copy(update={"drop_remainder": left_over != 0})
  return model, assumed
