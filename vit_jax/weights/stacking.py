"""Layers stacked along a first axis for a scan, or one by one for a loop."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from vit_jax.weights import flat

_STACKED = "Transformer/encoderblock/"
_LAYER = re.compile(r"Transformer/encoderblock_(\d+)/(.+)")


def unstack_layers(params: Mapping[str, Any]) -> dict[str, Any]:
  """Turns parameters of `scan_layers=True` into those of `False`.

  Args:
    params: Nested dict; without stacked layers it is returned unchanged.
  """
  leaves: dict[str, Any] = {}
  for name, leaf in flat.flatten(params).items():
    if name.startswith(_STACKED):
      rest = name.removeprefix(_STACKED)
      for i, layer in enumerate(np.asarray(leaf)):
        leaves[f"Transformer/encoderblock_{i}/{rest}"] = layer
    else:
      leaves[name] = leaf
  return flat.unflatten(leaves)


def stack_layers(params: Mapping[str, Any]) -> dict[str, Any]:
  """Turns parameters of `scan_layers=False` into those of `True`.

  Args:
    params: Nested dict whose layers all have the same parameters.
  """
  leaves: dict[str, Any] = {}
  layers: dict[str, dict[int, Any]] = {}
  for name, leaf in flat.flatten(params).items():
    if match := _LAYER.fullmatch(name):
      layers.setdefault(match[2], {})[int(match[1])] = leaf
    else:
      leaves[name] = leaf
  for rest, numbered in layers.items():
    arrays = [np.asarray(numbered[i]) for i in range(len(numbered))]
    leaves[_STACKED + rest] = np.stack(arrays)
  return flat.unflatten(leaves)
