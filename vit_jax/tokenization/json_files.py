"""JSON files next to a vocabulary."""

import json

from etils import epath

from vit_jax.errors import UserError


def read(file: epath.Path) -> dict:
  """Returns the object of a file; an empty one if the file is missing."""
  if not file.exists():
    return {}
  try:
    found = json.loads(file.read_bytes())
  except ValueError:
    found = None
  if not isinstance(found, dict):
    raise UserError(f"{file} is not a JSON object.")
  return found


def section(found: dict, key: str) -> dict:
  """Returns the object under a key, empty if there is none."""
  value = found.get(key)
  return value if isinstance(value, dict) else {}


def raise_if_other_vocabulary(
  expected: int | None, size: int, config: epath.Path, vocabulary: str
) -> None:
  """Raises UserError if a vocabulary's size differs from the one in a file."""
  if expected is not None and expected != size:
    raise UserError(
      f"{vocabulary} has {size} pieces, but vocab_size of {config} is"
      f" {expected}; use the tokenizer that the model was trained with."
    )
