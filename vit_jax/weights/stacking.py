"""Stacking layers along a first axis for a scan, and unstacking them.

A network may have several Transformers, each under its own prefix, such as the
two towers of CLIP.
"""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from vit_jax.weights import flat

_STACKED = re.compile(r"((?:.*/)?Transformer)/encoderblock/(.+)")
_LAYER = re.compile(r"((?:.*/)?Transformer)/encoderblock_(\d+)/(.+)")


def unstack_layers(params: Mapping[str, Any]) -> dict[str, Any]:
  """Converts parameters from `scan_layers=True` to `False`.

  Args:
    params: Nested dict; returned unchanged if no layers are stacked.
  """
  leaves = flat.flatten(params)
  return flat.unflatten(_unstacked(leaves, lambda _: True))


def stack_layers(params: Mapping[str, Any]) -> dict[str, Any]:
  """Converts parameters from `scan_layers=False` to `True`.

  Args:
    params: Nested dict in which all layers of a Transformer have the same
      parameters.
  """
  leaves = flat.flatten(params)
  return flat.unflatten(_stacked(leaves, lambda _: True))


def arranged(
  params: Mapping[str, Any], paths: Collection[str]
) -> dict[str, Any]:
  """Stacks or unstacks each Transformer's layers to match a network.

  Args:
    params: Nested dict; arrays that already match are not copied.
    paths: Paths of the network's parameters. A Transformer that is not among
      them is unstacked.
  """
  matches = map(_STACKED.fullmatch, paths)
  scanned = {match[1] for match in matches if match}
  leaves = _unstacked(flat.flatten(params), lambda name: name not in scanned)
  return flat.unflatten(_stacked(leaves, lambda name: name in scanned))


def _unstacked(
  leaves: Mapping[str, Any], concerns: Callable[[str], bool]
) -> dict[str, Any]:
  """Unstacks the layers of Transformers for which `concerns` is true."""
  found: dict[str, Any] = {}
  for path, leaf in leaves.items():
    match = _STACKED.fullmatch(path)
    if match and concerns(match[1]):
      for i, layer in enumerate(np.asarray(leaf)):
        found[f"{match[1]}/encoderblock_{i}/{match[2]}"] = layer
    else:
      found[path] = leaf
  return found


def _stacked(
  leaves: Mapping[str, Any], concerns: Callable[[str], bool]
) -> dict[str, Any]:
  """Stacks the layers of Transformers for which `concerns` is true."""
  found: dict[str, Any] = {}
  layers: dict[str, dict[int, Any]] = {}
  for path, leaf in leaves.items():
    match = _LAYER.fullmatch(path)
    if match and concerns(match[1]):
      stacked = f"{match[1]}/encoderblock/{match[3]}"
      layers.setdefault(stacked, {})[int(match[2])] = leaf
    else:
      found[path] = leaf
  for path, numbered in layers.items():
    arrays = [np.asarray(numbered[i]) for i in range(len(numbered))]
    found[path] = np.stack(arrays)
  return found
