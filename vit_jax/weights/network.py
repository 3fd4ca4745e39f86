"""Detects the network that a file's parameters form, in any format."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pydantic

from vit_jax import truncate
from vit_jax.config import named_sections, schema
from vit_jax.errors import UserError
from vit_jax.registry import FAMILIES
from vit_jax.weights import shape_mismatches


def detect(
  params: Mapping[str, np.ndarray], path: str, said: Mapping[str, Any]
) -> tuple[schema.Model, list[str]]:
  """Infers the section `model` from names and shapes.

  Args:
    params: Parameters by our paths, with layers unstacked.
    path: Path of the file, for messages.
    said: Keys of the section that shapes do not determine, as the file has
      them.

  Returns:
    The section, and a sentence for each assumption.

  Raises:
    UserError: The parameters do not form one network; the message has a table.
  """
  shapes = {name: array.shape for name, array in params.items()}
  families = [FAMILIES.get(name) for name in FAMILIES.names()]
  family = next((f for f in families if f.matches(shapes)), None)
  if family is None:
    *titles, last = (family.title for family in families)
    raise UserError(
      f"{path} holds no {', '.join(titles)} or {last}. Its parameters:"
      f" {truncate.first(list(shapes), 5) or 'none'}."
    )
  found = family.detect(shapes, path, said)
  model = section(found.keys, path)
  shape_mismatches.check(
    shapes,
    family.shapes(model, model.num_classes),
    f"{path} is not a complete {family.title}, or not one that is supported",
  )
  return model, list(found.assumed)


def section(keys: Mapping[str, Any], path: str) -> schema.Model:
  """Builds the section `model` from the keys that a file states.

  Raises:
    UserError: Some keys or values are unknown; the message names them.
  """
  kind = FAMILIES.get(keys.get("name", "vit")).section
  own = named_sections.own_keys("model", keys)
  try:
    # Validated as JSON, where a saved tuple is a list.
    return kind.model_validate_json(json.dumps(own))
  except pydantic.ValidationError as error:
    wrong = {".".join(map(str, item["loc"])) for item in error.errors()}
    raise UserError(
      f"{path} has a model that this version does not know, by its"
      f" {', '.join(sorted(wrong))}."
    ) from None
