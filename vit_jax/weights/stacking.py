"""Layers one by one (a loop over them) or along a first axis (a scan)."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from vit_jax.weights import flat

_STACKED = "Transformer/encoderblock/"
_LAYER = re.compile(r"Transformer/encoderblock_(\d+)/(.+)")


def unstack_layers(params: Mapping[str, Any]) -> dict[str, Any]:
  """Parameters of `scan_layers=True` as those of `scan_layers=False`.

  Args:
    params: nested dict; without stacked layers it is returned as it is.
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
  """Parameters of `scan_layers=False` as those of `scan_layers=True`.

  Args:
    params: nested dict whose layers have the same parameters each.
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
