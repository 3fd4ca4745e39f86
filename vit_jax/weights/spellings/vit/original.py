"""DeiT's own checkpoints, whose names timm took over."""

from typing import Any

from vit_jax.weights.fields import Fields
from vit_jax.weights.spellings.contract import Original
from vit_jax.weights.spellings.names import Tensors
from vit_jax.weights.spellings.vit.timm import TIMM


def _said(tensors: Tensors, path: str, notes: list[str]) -> dict[str, Any]:
  return TIMM.said(Fields(path, {}), tensors, path, notes)


ORIGINAL = Original(
  label="DeiT", names=TIMM.names, said=_said, prepare=TIMM.prepare
)
