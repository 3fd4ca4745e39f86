"""The types and bounds of config keys, in words."""

import types
import typing
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

import markdown_text

from vit_jax.config import named_sections, schema

# What a hint cannot say: who checks the value is a function.
_NAMED_HINTS = (
  (schema.Scalar, "number ≥ 0, or a [change over the run](config.md#scalars)"),
  (schema.Duration, "[duration](config.md#durations)"),
  (schema.Interval, "[duration](config.md#durations) of a step or more"),
  (named_sections.AnyModel, "keys of a family"),
)
_PLAIN = {int: "integer", float: "number", str: "text", bool: "True or False"}
# Larger bounds are those of int32 and of memory, which nobody runs into.
_LARGEST_BOUND = 2**20 - 1


def words(hint: Any) -> str:
  """The type and the allowed values of a hint, in Markdown."""
  for named, text in _NAMED_HINTS:
    if hint == named:
      return text
  origin, arguments = typing.get_origin(hint), typing.get_args(hint)
  if hint in _PLAIN:
    return _PLAIN[hint]
  if hint is type(None):
    return "`None`"
  if origin is Literal:
    return choices(arguments)
  if origin in (typing.Union, types.UnionType):
    return " or ".join(map(words, arguments))
  if origin is tuple:
    if arguments[-1] is Ellipsis:
      return f"tuple of {words(arguments[0])}"
    return f"({', '.join(map(words, arguments))})"
  if origin is Annotated:
    return _with_bounds(words(arguments[0]), _bounds(arguments[1:]))
  raise TypeError(f"{hint!r} is a hint without words; add them here.")


def _bounds(annotations: Any) -> dict[str, float]:
  """{'gt', 'ge', 'lt', 'le': bound} of annotations."""
  found = {}
  for one in annotations:
    for constraint in getattr(one, "metadata", ()):
      for name in ("gt", "ge", "lt", "le"):
        bound = getattr(constraint, name, None)
        if bound is not None and bound < _LARGEST_BOUND:
          found[name] = bound
  return found


def _with_bounds(kind: str, bounds: Mapping[str, float]) -> str:
  if kind == "integer" and "gt" in bounds:
    bounds = {"ge": bounds["gt"] + 1} | {
      name: bound for name, bound in bounds.items() if name != "gt"
    }
  low = next((n for n in ("gt", "ge") if n in bounds), None)
  high = next((n for n in ("lt", "le") if n in bounds), None)
  if low and high:
    left, right = "(["[low == "ge"], ")]"[high == "le"]
    return f"{kind} in {left}{bounds[low]:g}, {bounds[high]:g}{right}"
  if low:
    return f"{kind} {'≥' if low == 'ge' else '>'} {bounds[low]:g}"
  if high:
    return f"{kind} {'≤' if high == 'le' else '<'} {bounds[high]:g}"
  return kind


def choices(values: Iterable[object]) -> str:
  """Values to choose from, as code."""
  return ", ".join(markdown_text.code(repr(value)) for value in values)
