"""Checkpoints of DeiT and DeiT III, whose names timm took over but for two."""

import dataclasses
from typing import Any

from vit_jax.weights.fields import Fields
from vit_jax.weights.spellings.contract import Original
from vit_jax.weights.spellings.names import Tensors
from vit_jax.weights.spellings.vit.timm import TIMM

_BLOCK = "Transformer/encoderblock_{0}"
# DeiT III's factors of its branches.
_ROWS = (
  (f"{_BLOCK}/layer_scale_0", "blocks.{0}.gamma_1"),
  (f"{_BLOCK}/layer_scale_1", "blocks.{0}.gamma_2"),
)


def _said(tensors: Tensors, path: str, notes: list[str]) -> dict[str, Any]:
  found = TIMM.said(Fields(path, {}), tensors, path, notes)
  return {**found, "pos_embedding_resize": "bicubic"}


ORIGINAL = Original(
  label="DeiT",
  names=dataclasses.replace(TIMM.names, rows=(*_ROWS, *TIMM.names.rows)),
  said=_said,
  prepare=TIMM.prepare,
)
