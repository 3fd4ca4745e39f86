"""Converts nested dicts of parameters to {"a/b": array}; without jax."""

from collections.abc import Mapping
from typing import Any


def flatten(params: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
  """Returns the leaves by path, in the order of the dicts."""
  leaves: dict[str, Any] = {}
  for name, value in params.items():
    if isinstance(value, Mapping):
      leaves.update(flatten(value, f"{prefix}{name}/"))
    else:
      leaves[prefix + name] = value
  return leaves


def unflatten(leaves: Mapping[str, Any]) -> dict[str, Any]:
  """Returns the nested dict that `flatten` turns into `leaves`."""
  params: dict[str, Any] = {}
  for path, leaf in leaves.items():
    *parents, name = path.split("/")
    level = params
    for parent in parents:
      level = level.setdefault(parent, {})
    level[name] = leaf
  return params
