"""PyTorch checkpoints of those who published a family."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from etils import epath

from vit_jax.errors import UserError
from vit_jax.weights import torch_file
from vit_jax.weights.contract import Weights
from vit_jax.weights.spellings import names
from vit_jax.weights.spellings.contract import Original
from vit_jax.weights.spellings.names import Tensors
from vit_jax.weights.spellings.registry import ORIGINAL

# Where a checkpoint keeps its state dict; the first that is there is taken.
_CONTAINERS = ("model", "state_dict", "module", "model_ema")
_PARALLEL = "module."


def read(path: epath.PathLike) -> Weights:
  """Reads the parameters of a checkpoint, and the network that they make up.

  Args:
    path: A .pth, .pt, .bin or .ckpt file.

  Raises:
    UserError: The file is damaged, or its network is not one of ours.
  """
  where, notes = str(path), []
  found = _state_dict(torch_file.read(path), where, notes)
  family = _family(found, where)
  found = family.prepare(found, where, notes)
  said = {"normalize": "imagenet", **family.said(found, where, notes)}
  model, params, assumed = names.read(where, found, family.names, said)
  return Weights(
    path=where,
    model=model,
    params=params,
    class_names=None,
    assumed=(*notes, *assumed),
  )


def _state_dict(
  file: Mapping[Any, Any], path: str, notes: list[str]
) -> dict[str, np.ndarray]:
  """The floating point numbers of a checkpoint, by name."""
  there = [key for key in _CONTAINERS if isinstance(file.get(key), dict)]
  if there:
    file = file[there[0]]
  if len(there) > 1:
    notes.append(
      f"The file holds {' and '.join(there)}: '{there[0]}' is taken."
    )
  found: dict[str, np.ndarray] = {}
  for key, tensor in file.items():
    if not isinstance(key, str) or not isinstance(tensor, np.ndarray):
      continue
    # Counts and tables of indices follow from the shapes.
    if tensor.dtype != np.float32:
      continue
    name = key.removeprefix(_PARALLEL)
    if name in found:
      raise UserError(f"{path} holds '{name}' twice, as '{key}' too.")
    found[name] = tensor
  return found


def _family(found: Tensors, path: str) -> Original:
  families = [ORIGINAL.get(name) for name in ORIGINAL.names()]
  for family in families:
    if family.names.required[0] in found:
      return family
  some = ", ".join(sorted(found)[:4]) or "none"
  marks = dict.fromkeys(family.names.required[0] for family in families)
  raise UserError(
    f"{path} is no checkpoint of"
    f" {', '.join(family.label for family in families)}: it has none of"
    f" {', '.join(marks)}. Its tensors: {some}"
    f"{', ...' if len(found) > 4 else ''}."
  )
