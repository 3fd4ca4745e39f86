"""Lists of names and of templates: those that are here, and a user's files."""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

from etils import epath

from vit_jax import buckets
from vit_jax.errors import UserError

_HERE = pathlib.Path(__file__).parent / "named"


def named(name: str) -> list[str]:
  """The lines of a list of this package."""
  return (_HERE / f"{name}.txt").read_text().splitlines()


def read_file(path: str, *, key: str, holds: str) -> list[Any]:
  """The entries of a file: a JSON list, else lines that are not empty.

  Args:
    path: File, local or in a bucket.
    key: Config key or flag that names it, for messages.
    holds: Plural of what its entries are, for messages.

  Raises:
    UserError: There is no such file, it is no text in UTF-8, or it is empty.
  """
  buckets.check(path)
  place = epath.Path(path).expanduser()
  try:
    text = place.read_bytes().decode("utf-8-sig")
  except FileNotFoundError:
    raise UserError(f"{key}: there is no file {path} with {holds}.") from None
  except (OSError, UnicodeDecodeError) as error:
    raise UserError(
      f"{key}: {path} cannot be read as text in UTF-8 ({error})."
    ) from None
  if place.suffix == ".json":
    entries = _json(text, path, key, holds)
  else:
    entries = [line.strip() for line in text.splitlines() if line.strip()]
  if not entries:
    raise UserError(f"{key}: {path} has no {holds}; write one in each line.")
  return entries


def _json(text: str, path: str, key: str, holds: str) -> list[Any]:
  try:
    value = json.loads(text)
  except ValueError as error:
    raise UserError(f"{key}: {path} is not JSON ({error}).") from None
  if isinstance(value, Mapping) and set(value) == set(
    map(str, range(len(value)))
  ):
    # Numbers to names, as in id2label of Hugging Face.
    value = [value[str(number)] for number in range(len(value))]
  if not isinstance(value, list):
    raise UserError(
      f"{key}: {path} must hold a JSON list of {holds}, or an object from"
      ' "0", "1", ... to them.'
    )
  return value
