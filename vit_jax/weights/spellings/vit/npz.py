"""google-research's naming schemes for a ViT's parameters, unified.

Our names are those of the published Linen files. Other variants in use: modules
numbered jointly (`MlpBlock_3` where Linen has `MlpBlock_0`), layers stacked
along a first axis, and a position embedding without a row for the class token.
"""

import re
from collections.abc import Mapping

import numpy as np

from vit_jax.errors import UserError
from vit_jax.models.vit.shapes import TABLE
from vit_jax.weights import position_embeddings
from vit_jax.weights.spellings.contract import Npz

_PRE_LINEN = {
  "LayerNorm_2": "LayerNorm_1",
  "MlpBlock_3": "MlpBlock_0",
  "MultiHeadDotProductAttention_1": "MultiHeadDotProductAttention_0",
}
_MODULE = re.compile(
  r"(?<=/)(LayerNorm_2|MlpBlock_3|MultiHeadDotProductAttention_1)(?=/)"
)
_STACKED = "Transformer/encoderblock/"
_GROUP_NORM = re.compile(r"(.*/)?gn(_root|_proj|\d)/(scale|bias)")
_TABLES = ("pos_embedding", "Transformer/pos_embedding")
# Attention pooling used to be at the top level.
_MAP_HEAD = re.compile(
  r"(probe|(MlpBlock|MultiHeadDotProductAttention|LayerNorm)_0/.+)"
)


def _canonical(
  params: Mapping[str, np.ndarray], path: str
) -> dict[str, np.ndarray]:
  """Converts parameters to our names and shapes, with layers unstacked.

  Unknown names are unchanged.

  Raises:
    UserError: Two names mean the same, or stacked layers differ.
  """
  renamed: dict[str, np.ndarray] = {}
  has_no_row = False

  def add(name: str, array: np.ndarray) -> None:
    if name in renamed:
      raise UserError(f"{path} holds {name} twice, in two spellings.")
    renamed[name] = array

  for name, array in params.items():
    name = _MODULE.sub(lambda match: _PRE_LINEN[match[0]], name)
    if name in _TABLES:
      name, has_no_row = TABLE, True
    if _MAP_HEAD.fullmatch(name):
      name = f"MAPHead_0/{name}"
    if _GROUP_NORM.fullmatch(name) and array.shape[:-1] == (1, 1, 1):
      array = array.reshape(-1)
    if name.startswith(_STACKED):
      rest = name.removeprefix(_STACKED)
      for i in range(len(array) if array.ndim else 0):
        add(f"Transformer/encoderblock_{i}/{rest}", array[i, ...])
    else:
      add(name, array)
  if has_no_row and "cls" in renamed:
    # A row of zeros, as in the other published naming schemes. Under our own
    # name a table without that row belongs to a network without it.
    renamed[TABLE] = position_embeddings.with_prefix_rows(renamed[TABLE])
  return renamed


NPZ = Npz(
  matches=lambda names: any(name.startswith("Transformer/") for name in names),
  canonical=_canonical,
  published=lambda params: params,
  unseen=(
    "image_size",
    "normalize",
    "standardization",
    "drop_remainder",
    "pool",
    "pos_embedding",
    "pos_embedding_at",
    "pos_embedding_resize",
    "rope",
    "rope_grid",
    "rope_base",
    "rope_coordinates",
    "gelu",
    "layer_norm_eps",
    "distillation",
    "layer_scale",
  ),
)
