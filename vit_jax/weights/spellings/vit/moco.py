"""facebookresearch/moco-v3 checkpoints: timm's names, and what differs."""

import math
import re

import numpy as np

from vit_jax.models.layers.embeddings import mae_sincos2d
from vit_jax.weights.spellings.names import Tensors

# Its ViT-S has twice the heads of others of this width.
_SMALL_WIDTH, NUM_HEADS = 384, 12
_OF_HEAD = re.compile(r"head\.\d+\..+")
_NORM_OF_HEAD = "head.1.running_mean"


def without_head(tensors: Tensors, notes: list[str]) -> Tensors:
  """Leaves out the projection head, which a note tells."""
  if _NORM_OF_HEAD not in tensors:
    return tensors
  kept = {n: x for n, x in tensors.items() if not _OF_HEAD.fullmatch(n)}
  notes.append(
    f"The projection head ({len(tensors) - len(kept)} tensors) is not part of"
    " the network."
  )
  return kept


def is_small(tensors: Tensors) -> bool:
  """Tells its ViT-S by the positions, which no training changes.

  They are MAE's with rows before columns; the class token's is zero.
  """
  table = tensors["pos_embed"]
  if table.ndim != 3 or table.shape[-1] != _SMALL_WIDTH or table.shape[1] < 2:
    return False
  side = math.isqrt(table.shape[1] - 1)
  columns, rows = np.split(mae_sincos2d((side, side), _SMALL_WIDTH), 2, axis=1)
  fixed = np.concatenate([rows, columns], axis=1)
  fixed = np.pad(fixed, ((1, 0), (0, 0)))[None]
  # Tables in half precision are as close.
  return table.shape == fixed.shape and np.allclose(table, fixed, atol=1e-2)
