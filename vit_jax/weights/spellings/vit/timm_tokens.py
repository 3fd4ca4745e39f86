"""A ViT's prefix tokens and positions in the form of timm's networks.

timm gives positions to all prefix tokens, registers included, or to none, and
has one kind of positions: a learned table. Anything else in our networks is
folded into the tokens and that table, with equal outputs.
"""

import dataclasses

import numpy as np

from vit_jax.config import schema
from vit_jax.models.layers.embeddings import PositionEmbedding
from vit_jax.models.vit import sizes
from vit_jax.weights import flat
from vit_jax.weights.spellings.names import Tensors
from vit_jax.weights.spellings.timm_network import cannot

_INPUT = "Transformer/posembed_input/"
_TABLE = f"{_INPUT}pos_embedding"
_BIAS = "embedding/bias"
_TABLES = ("learned_1d", "learned_2d", "sincos2d")


@dataclasses.dataclass(frozen=True)
class Tokens:
  """The tokens before the patches, counted as in timm.

  Attributes:
    has_cls: Whether there is a class token.
    registers: Number of registers; a distillation token without a head counts
      as one.
    with_rows: Whether the table has a row for each of these tokens.
  """

  has_cls: bool
  registers: int
  with_rows: bool


def check(kind: str, model: schema.Model) -> None:
  """Checks that tokens are pooled in one of timm's ways, with its positions.

  Raises:
    Unwritable: The class token and the patches are pooled together, or
      positions are relative, or added at every layer.
  """
  if model.pool == "cls_gap":
    raise cannot(kind, "model.pool='cls_gap'")
  if model.pos_embedding not in (*_TABLES, "none"):
    raise cannot(kind, f"model.pos_embedding='{model.pos_embedding}'")
  if model.pos_embedding != "none" and model.pos_embedding_at != "stem":
    raise cannot(kind, f"model.pos_embedding_at='{model.pos_embedding_at}'")


def counted(model: schema.Model) -> Tokens:
  """Counts the tokens before a network's patches."""
  has_cls = sizes.has_cls(model.pool, model.cls_token)
  is_distilled = model.distillation == "average"
  registers = model.registers + (model.distillation == "token")
  return Tokens(
    has_cls=has_cls,
    registers=registers,
    with_rows=is_distilled
    or not registers
    and (sizes.num_prefix_positions(model) > 0 or not has_cls),
  )


def has_table(model: schema.Model) -> bool:
  """Tells whether there is a table, of positions or of a bias (see below)."""
  # timm's distilled network always has one.
  has_bias = model.pre_norm and model.patch_bias
  is_distilled = model.distillation == "average"
  return model.pos_embedding != "none" or has_bias or is_distilled


def folded(model: schema.Model, params: Tensors) -> dict[str, np.ndarray]:
  """Folds parameters into those that timm's networks have, by our paths.

  The bias of the patch embedding, which timm omits before a norm, is added to
  the patches' positions.

  Args:
    model: Section of the network, which must pass `check`.
    params: Parameters by our paths, with layers unstacked.
  """
  found = {n: np.asarray(x) for n, x in params.items() if _INPUT not in n}
  tokens = counted(model)
  rows = sizes.num_prefix_positions(model)
  if has_table(model):
    table = _table(model, params, rows)
    if model.pre_norm and _BIAS in found:
      table[:, rows:] += found.pop(_BIAS)
    if not tokens.with_rows:
      for name, row in zip(("cls", "dist"), range(rows), strict=False):
        found[name] = found[name] + table[:, row : row + 1]
      table = table[:, rows:]
    elif not rows and tokens.has_cls:
      # For the class and the distillation token.
      table = np.pad(table, ((0, 0), (2, 0), (0, 0)))
    found[_TABLE] = table
  if not model.pre_norm:
    found.setdefault(_BIAS, np.zeros(sizes.vit(model).width, np.float32))
  if model.distillation == "token":
    rest = [found["registers"]] if model.registers else []
    found["registers"] = np.concatenate([found.pop("dist"), *rest], axis=1)
  return found


def _table(model: schema.Model, params: Tensors, rows: int) -> np.ndarray:
  """Returns the positions [1, n, d] of the first tokens and all patches."""
  size = sizes.vit(model)
  side = size.grid(model.image_size)
  if model.pos_embedding == "none":
    return np.zeros((1, rows + side**2, size.width), np.float32)
  given = {
    name.removeprefix(_INPUT): array
    for name, array in params.items()
    if name.startswith(_INPUT)
  }
  module = PositionEmbedding(model.pos_embedding)
  variables = {"params": flat.unflatten(given)}
  table = module.apply(variables, (side, side), size.width, rows)
  return np.array(table, np.float32)
