"""Training checkpoints of FCMAE: facebookresearch/ConvNeXt-V2, models/fcmae.py.

The encoder is made of MinkowskiEngine's layers, whose convolutions are matrices
for each place of a kernel, column by column. The decoder is dense.
"""

import dataclasses
import re
from typing import Any

import numpy as np

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.weights import flat
from vit_jax.weights.spellings import names
from vit_jax.weights.spellings.contract import Beside, Original
from vit_jax.weights.spellings.convnext import original
from vit_jax.weights.spellings.names import Names, Tensors

_ENCODER = "encoder."
_KERNEL = ".kernel"
# Modules that MinkowskiEngine's layers keep their parameters in.
_INNER = re.compile(r"\.(ln|linear)(?=\.(weight|bias)$)")
_OF_DECODER = re.compile(r"mask_token|(decoder|proj|pred)\..*")
_WHOLE = (
  "mask_token",
  "proj.weight",
  "decoder.0.dwconv.weight",
  "pred.weight",
)
_NAMES = Names(
  rows=(
    ("embedding", "proj"),
    ("mask_token", "mask_token"),
    ("prediction", "pred"),
    *(
      (ours.removeprefix("stage{1}/"), theirs.replace("stages.{0}", "decoder"))
      for ours, theirs in original.ORIGINAL.names.rows
      if ours.startswith("stage{1}/")
    ),
  )
)


def _prepare(tensors: Tensors, path: str, notes: list[str]) -> Tensors:
  """Returns the encoder's tensors as those of a dense network.

  Raises:
    UserError: A convolution has a shape that MinkowskiEngine's do not have.
  """
  dense: dict[str, np.ndarray] = {}
  for name, tensor in tensors.items():
    if _OF_DECODER.fullmatch(name):
      continue
    if name.endswith(_KERNEL):
      tensor = _convolution(tensor, name, path)
    elif name.endswith(".bias"):
      tensor = tensor.reshape(-1)
    name = _INNER.sub("", name.removeprefix(_ENCODER))
    dense[name.replace(_KERNEL, ".weight")] = tensor
  if unused := len(tensors) - len(dense):
    note = f"The decoder ({unused} tensors) is not part of the network"
    if _has_decoder(tensors):
      note += "; vit_jax.load(path, pretraining=True) returns it as well"
    notes.append(f"{note}.")
  return original.ORIGINAL.prepare(dense, path, notes)


def _convolution(tensor: np.ndarray, name: str, path: str) -> np.ndarray:
  """Converts [places, inputs, outputs] or [places, channels] to PyTorch's."""
  side = round(len(tensor) ** 0.5) if tensor.ndim in (2, 3) else 0
  if not side or side**2 != len(tensor):
    raise UserError(
      f"{path}: '{name}' is of shape {tensor.shape}, which is no square"
      " convolution of MinkowskiEngine: (places, inputs, outputs) or (places,"
      " channels)."
    )
  if tensor.ndim == 2:
    tensor = tensor[:, None]
  split = tensor.reshape(side, side, *tensor.shape[1:])  # Columns, rows, ...
  return split.transpose(3, 2, 1, 0)


def _has_decoder(tensors: Tensors) -> bool:
  return all(name in tensors and tensors[name].size for name in _WHOLE)


def _beside(tensors: Tensors, path: str) -> Beside:
  """Returns the decoder, if there is all of it.

  Targets are assumed to be normalised, as in the paper.
  """
  del path
  if not _has_decoder(tensors):
    return {}, None
  converted = {}
  for name, tensor in tensors.items():
    if _OF_DECODER.fullmatch(name):
      if name == "mask_token":
        tensor = tensor.reshape(1, 1, 1, -1)
      elif ".grn." in name:
        tensor = tensor.reshape(-1)
      elif tensor.shape[2:] == (1, 1) and name in _WHOLE:
        tensor = tensor[:, :, 0, 0]
      ours = _NAMES.ours(name, tensor.ndim)
      converted[ours] = names.to_ours(ours, tensor, 1)
  decoder: dict[str, Any] = flat.unflatten(converted)
  objective = schema.FCMAE(
    decoder_width=decoder["mask_token"].size,
    decoder_depth=sum(name.startswith("block") for name in decoder),
  )
  return {"decoder": decoder}, objective


ORIGINAL: Original = dataclasses.replace(
  original.ORIGINAL,
  label="ConvNeXt V2 as trained by FCMAE",
  prepare=_prepare,
  beside=_beside,
  # Of the second stage: no dense network has it.
  marks=(f"{_ENCODER}downsample_layers.1.1{_KERNEL}",),
)
