"""Entries of third-party config.json files, checked one by one.

pydantic checks the values. There is no model per file, because the relevant
keys depend on the tensors next to it, and most files have dozens of others.
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Annotated, Any

import pydantic
from etils import epath

from vit_jax import buckets
from vit_jax.errors import UserError

# More than any network's widths, layers or pixels; keeps a damaged number from
# using up all memory.
_LARGEST = 100_000
_LONGEST = 16 * 2**20


@dataclasses.dataclass(frozen=True)
class _Kind:
  """A kind of value: its name for messages and its pydantic check."""

  words: str
  adapter: pydantic.TypeAdapter


def _kind(words: str, of: Any) -> _Kind:
  return _Kind(words, pydantic.TypeAdapter(of))


_Count = Annotated[int, pydantic.Field(strict=True, ge=1, le=_LARGEST)]
_Number = Annotated[float, pydantic.Field(strict=True, gt=-1e30, lt=1e30)]

COUNT = _kind(f"a whole number from 1 to {_LARGEST}", _Count)
COUNTS = _kind(
  "a list of whole numbers",
  Annotated[list[_Count], pydantic.Field(min_length=1)],
)
NUMBER = _kind("a number", _Number)
# A single number counts as a list of one.
NUMBERS = _kind(
  "a list of numbers",
  Annotated[
    list[_Number],
    pydantic.Field(min_length=1),
    pydantic.BeforeValidator(lambda x: x if isinstance(x, list) else [x]),
  ],
)
FLAG = _kind("true or false", pydantic.StrictBool)
TEXT = _kind("a text", pydantic.StrictStr)
_OBJECT = _kind("an object", dict[str, Any])


@dataclasses.dataclass(frozen=True)
class Fields:
  """The object in a JSON file, or an object nested in it.

  A missing or null key has its default.

  Attributes:
    path: Path of the file and the keys leading to the object, for messages.
    values: The object.
  """

  path: str
  values: Mapping[str, Any]

  @classmethod
  def read(cls, path: epath.Path) -> "Fields":
    """Reads a file.

    Raises:
      UserError: The file does not exist or is not a JSON object.
    """
    try:
      if buckets.status(path).size > _LONGEST:
        raise UserError(f"{path} is too long for a file of settings.")
      values = json.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
      raise UserError(f"{path} does not exist.") from None
    except OSError as error:
      raise UserError(
        f"{path} cannot be read ({error.strerror or error})."
      ) from None
    except (ValueError, RecursionError) as error:
      raise UserError(f"{path} is not JSON ({error}).") from None
    if not isinstance(values, dict):
      raise UserError(f"{path} does not hold a JSON object.")
    return cls(str(path), values)

  def __contains__(self, name: str) -> bool:
    return self.values.get(name) is not None

  def get(self, name: str, kind: _Kind, default: Any = None) -> Any:
    """Returns the value of a key.

    Args:
      name: The key.
      kind: One of the kinds defined in this module, such as `COUNT`.
      default: Value if the key is missing; None if the key is required.

    Raises:
      UserError: The value is missing or of another kind.
    """
    if name not in self:
      if default is None:
        raise UserError(f"{self.path} does not say {name}.")
      return default
    try:
      return kind.adapter.validate_python(self.values[name])
    except pydantic.ValidationError:
      raise self.refusal(name, f"is not {kind.words}") from None

  def side(self, name: str, default: int | None = None) -> int:
    """Returns the side of a square, given once or as [height, width]."""
    value = self.values.get(name)
    if not isinstance(value, list):
      return self.get(name, COUNT, default)
    if len(value) not in (1, 2) or value[0] != value[-1]:
      raise self.refusal(
        name, "is not a square, and our models take square images only"
      )
    return Fields(self.path, {name: value[0]}).get(name, COUNT)

  def mapping(self, name: str) -> "Fields":
    """Returns a nested object; {} if it is missing."""
    return Fields(f"{self.path}: {name}", self.get(name, _OBJECT, {}))

  def refusal(self, name: str, reason: str) -> UserError:
    """Returns the error for a value; `reason` follows it in the sentence."""
    shown = json.dumps(self.values.get(name))
    shown = shown if len(shown) <= 100 else shown[:100] + "..."
    return UserError(f"{self.path}: {name} = {shown} {reason}.")
