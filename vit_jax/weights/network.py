"""The network that a file's parameters make up, whatever the file's form."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pydantic

from vit_jax.config import named_sections, schema
from vit_jax.errors import UserError
from vit_jax.registry import FAMILIES
from vit_jax.weights import shape_mismatches


def detect(
  params: Mapping[str, np.ndarray], path: str, said: Mapping[str, Any]
) -> tuple[schema.Model, list[str]]:
  """Tells the section `model` from names and shapes.

  Args:
    params: Parameters by our paths, layers not stacked.
    path: Path of the file, for messages.
    said: Keys of the section that no shape tells, as the file has them.

  Returns:
    The section, and a sentence for each assumption.

  Raises:
    UserError: The parameters are not those of one network; with a table.
  """
  shapes = {name: array.shape for name, array in params.items()}
  families = [FAMILIES.get(name) for name in FAMILIES.names()]
  # Parameters that match no family are reported by the first.
  family = next((f for f in families if f.matches(shapes)), families[0])
  found = family.detect(shapes, path, said)
  model = section(found.keys, path)
  shape_mismatches.check(
    shapes,
    family.shapes(model, model.num_classes),
    f"{path} is not a whole {family.title}, or not one that is known",
  )
  return model, list(found.assumed)


def section(keys: Mapping[str, Any], path: str) -> schema.Model:
  """Makes the section `model` of the keys that a file tells.

  Raises:
    UserError: Some keys or values are unknown; they are named.
  """
  kind = FAMILIES.get(keys.get("name", "vit")).section
  own = named_sections.own_keys("model", keys)
  try:
    # As JSON, in which a tuple that was saved is a list.
    return kind.model_validate_json(json.dumps(own))
  except pydantic.ValidationError as error:
    wrong = {".".join(map(str, item["loc"])) for item in error.errors()}
    raise UserError(
      f"{path} has a model that this version does not know, by its"
      f" {', '.join(sorted(wrong))}."
    ) from None
