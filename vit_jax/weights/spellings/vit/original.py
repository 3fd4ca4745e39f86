"""Checkpoints of DeiT, DeiT III and MAE.

timm took over their names, but for DeiT III's factors of branches and for the
decoder of MAE's `*_full.pth`.
"""

import dataclasses
from typing import Any

from vit_jax.weights.fields import Fields
from vit_jax.weights.spellings.contract import Beside, Original
from vit_jax.weights.spellings.names import Tensors
from vit_jax.weights.spellings.vit import mae
from vit_jax.weights.spellings.vit.timm import TIMM, without_joined_projections

_BLOCK = "Transformer/encoderblock_{0}"
# DeiT III's factors of its branches.
_ROWS = (
  (f"{_BLOCK}/layer_scale_0", "blocks.{0}.gamma_1"),
  (f"{_BLOCK}/layer_scale_1", "blocks.{0}.gamma_2"),
)


def _said(tensors: Tensors, path: str, notes: list[str]) -> dict[str, Any]:
  found = TIMM.said(Fields(path, {}), tensors, path, notes)
  return {**found, "pos_embedding_resize": "bicubic"}


def _prepare(tensors: Tensors, path: str, notes: list[str]) -> Tensors:
  """The network's tensors, joined projections taken apart."""
  others = {n: x for n, x in tensors.items() if not mae.is_of_decoder(n)}
  if unused := len(tensors) - len(others):
    notes.append(f"The decoder ({unused} tensors) is left out.")
  return TIMM.prepare(others, path, notes)


def _beside(tensors: Tensors) -> Beside:
  decoder = {n: x for n, x in tensors.items() if mae.is_of_decoder(n)}
  return mae.of_original(without_joined_projections(decoder, "The decoder"))


ORIGINAL = Original(
  label="DeiT, MAE",
  names=dataclasses.replace(TIMM.names, rows=(*_ROWS, *TIMM.names.rows)),
  said=_said,
  prepare=_prepare,
  beside=_beside,
)
