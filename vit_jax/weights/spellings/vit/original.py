"""Checkpoints of DeiT, DeiT III, MAE, DINO, DINOv2 and MoCo v3.

timm adopted their names, except for DeiT III's branch factors, the decoder in
MAE's `*_full.pth`, MoCo v3's head (see `moco`), and parts of DINOv2 (see
`dino`).
"""

import dataclasses
from typing import Any

from vit_jax.weights.fields import Fields
from vit_jax.weights.spellings.contract import Assumed, Beside, Original
from vit_jax.weights.spellings.names import Tensors
from vit_jax.weights.spellings.vit import dino, mae, moco
from vit_jax.weights.spellings.vit.timm import TIMM, without_joined_projections

_BLOCK = "Transformer/encoderblock_{0}"
# DeiT III's branch factors.
_ROWS = (
  (f"{_BLOCK}/layer_scale_0", "blocks.{0}.gamma_1"),
  (f"{_BLOCK}/layer_scale_1", "blocks.{0}.gamma_2"),
)


def _said(tensors: Tensors, path: str, notes: list[str]) -> dict[str, Any]:
  if _may_be_timms_own(tensors):
    notes.append(
      "Pixels are taken to be normalised as DeiT's are (model.normalize="
      "'imagenet'); most of timm's own ViTs want 'minus_one_to_one'."
    )
  config: dict[str, Any] = {}
  if is_small_moco := moco.is_small(tensors):
    config["model_args"] = {"num_heads": moco.NUM_HEADS}
  found = TIMM.said(Fields(path, config), tensors, path, notes)
  if is_small_moco:
    found["num_heads"] = Assumed(found["num_heads"])
    notes.append(
      f"Its positions are MoCo v3's, whose ViT-S has {moco.NUM_HEADS} heads"
      f" (model.num_heads={moco.NUM_HEADS}); a run may set another"
      " config.model.num_heads."
    )
  return {
    **found,
    "pos_embedding_resize": dino.resize(tensors, notes) or "bicubic",
  }


def _may_be_timms_own(tensors: Tensors) -> bool:
  """Tells whether a classifier could be timm's own, which has equal names."""
  return "head.weight" in tensors and not any(
    name in tensors for name in ("head_dist.weight", "blocks.0.gamma_1")
  )


def _prepare(tensors: Tensors, path: str, notes: list[str]) -> Tensors:
  """Returns the network's tensors with joined projections split."""
  if mae.has_decoder(tensors):
    others = {n: x for n, x in tensors.items() if not mae.is_of_decoder(n)}
    unused = len(tensors) - len(others)
    notes.append(
      f"The decoder ({unused} tensors) is not part of the network;"
      " vit_jax.load(path, pretraining=True) returns it as well."
    )
    tensors = others
  tensors = moco.without_head(tensors, notes)
  return TIMM.prepare(tensors, path, notes)


def _beside(tensors: Tensors, path: str) -> Beside:
  if not mae.has_decoder(tensors):
    return dino.beside(tensors)
  decoder = {n: x for n, x in tensors.items() if mae.is_of_decoder(n)}
  return mae.of_original(without_joined_projections(decoder, path))


ORIGINAL = Original(
  label="DeiT, MAE, DINO, DINOv2, MoCo v3",
  names=dataclasses.replace(TIMM.names, rows=(*_ROWS, *TIMM.names.rows)),
  said=_said,
  prepare=_prepare,
  beside=_beside,
  state=dino.state,
)
