"""Entries of a config.json that others wrote, checked one by one."""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath

from vit_jax.errors import UserError

# More than any network's widths, layers or pixels; keeps a damaged number
# from taking all memory.
_LARGEST = 100_000
_LONGEST = 16 * 2**20


@dataclasses.dataclass(frozen=True)
class Fields:
  """The object that a JSON file holds, or one inside it.

  Every reader takes a default for a key that is missing or null, and raises a
  UserError that names file, key and value where the value is not of its kind.

  Attributes:
    path: the file, and the keys that lead to this object, for messages.
    values: the object.
  """

  path: str
  values: Mapping[str, Any]

  @classmethod
  def read(cls, path: epath.Path) -> "Fields":
    """Reads a file.

    Raises:
      UserError: it is not there, or is no JSON object.
    """
    try:
      if path.stat().length > _LONGEST:
        raise UserError(f"{path} is too long for a file of settings.")
      text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
      raise UserError(f"{path} does not exist.") from None
    except OSError as error:
      raise UserError(
        f"{path} cannot be read ({error.strerror or error})."
      ) from None
    except UnicodeDecodeError:
      raise UserError(f"{path} is not JSON: it is no UTF-8 text.") from None
    try:
      values = json.loads(text)
    except (ValueError, RecursionError) as error:
      raise UserError(f"{path} is not JSON ({error}).") from None
    if not isinstance(values, dict):
      raise UserError(f"{path} does not hold a JSON object.")
    return cls(str(path), values)

  def __contains__(self, name: str) -> bool:
    return self.values.get(name) is not None

  def integer(self, name: str, default: int | None = None) -> int:
    """A whole number from 1 on."""
    value = self._get(name, default)
    if isinstance(value, float) and value.is_integer():
      value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
      raise self.refusal(name, "is not a whole number")
    if not 0 < value <= _LARGEST:
      raise self.refusal(name, f"is not between 1 and {_LARGEST}")
    return value

  def number(self, name: str, default: float | None = None) -> float:
    """A finite number."""
    value = self._get(name, default)
    if not _is_number(value):
      raise self.refusal(name, "is not a number")
    return float(value)

  def numbers(
    self, name: str, default: Sequence[float] | None = None
  ) -> tuple[float, ...]:
    """Some finite numbers; one alone counts as a list of one."""
    value = self._get(name, default)
    values = value if isinstance(value, (list, tuple)) else [value]
    if not values or not all(map(_is_number, values)):
      raise self.refusal(name, "is not a list of numbers")
    return tuple(map(float, values))

  def integers(self, name: str, default: Sequence[int]) -> tuple[int, ...]:
    """Some whole numbers from 1 on."""
    values = self._get(name, default)
    if not isinstance(values, (list, tuple)) or not values:
      raise self.refusal(name, "is not a list of whole numbers")
    return tuple(Fields(self.path, {name: x}).integer(name) for x in values)

  def side(self, name: str, default: int | None = None) -> int:
    """The side of a square, given once or as [height, width]."""
    value = self._get(name, default)
    if isinstance(value, list):
      if len(value) not in (1, 2) or value[0] != value[-1]:
        raise self.refusal(
          name, "is not a square, and our models take square images only"
        )
      return Fields(self.path, {name: value[0]}).integer(name)
    return self.integer(name, default)

  def flag(self, name: str, default: bool) -> bool:
    value = self._get(name, default)
    if not isinstance(value, bool):
      raise self.refusal(name, "is neither true nor false")
    return value

  def text(self, name: str, default: str | None = None) -> str:
    value = self._get(name, default)
    if not isinstance(value, str):
      raise self.refusal(name, "is not a text")
    return value

  def mapping(self, name: str) -> "Fields":
    """An object; {} where it is missing."""
    value = self._get(name, {})
    if not isinstance(value, dict):
      raise self.refusal(name, "is not an object")
    return Fields(f"{self.path}: {name}", value)

  def refusal(self, name: str, reason: str) -> UserError:
    """The error about a value; `reason` follows it in the sentence."""
    shown = json.dumps(self.values.get(name))
    shown = shown if len(shown) <= 100 else shown[:100] + "..."
    return UserError(f"{self.path}: {name} = {shown} {reason}.")

  def _get(self, name: str, default: Any = None) -> Any:
    value = self.values.get(name)
    if value is not None:
      return value
    if default is None:
      raise UserError(f"{self.path} does not say {name}.")
    return default


def _is_number(value: Any) -> bool:
  # A whole number may be too large for a float.
  return (
    isinstance(value, (int, float))
    and not isinstance(value, bool)
    and abs(value) < 1e30
    and math.isfinite(value)
  )
