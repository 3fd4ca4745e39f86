"""Networks by name. Imports jax only when one is built."""

import difflib
from typing import TYPE_CHECKING

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.models import variants

if TYPE_CHECKING:
  import flax.linen as nn


def create(model: schema.Model, *, num_classes: int | None) -> "nn.Module":
  """The network that `config.model` asks for, without parameters.

  Args:
    model: the resolved section; its own `num_classes` is not looked at.
    num_classes: outputs of the head; None: no head.

  Raises:
    UserError: what `check` finds.
  """
  check(model)
  return MODELS[model.name](model, num_classes)


def check(model: schema.Model) -> None:
  """Checks `config.model` without importing jax.

  Raises:
    UserError: naming the key, its value and what would do.
  """
  if model.name not in MODELS:
    close = difflib.get_close_matches(model.name, MODELS, n=1, cutoff=0.4)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    raise UserError(
      f"config.model.name = '{model.name}' is not known.{hint} Known:"
      f" {', '.join(MODELS)}."
    )
  variants.check(model)


def _vit(model: schema.Model, num_classes: int | None) -> "nn.Module":
  from vit_jax.models.vit import ViT

  size = variants.resolve_size(model)
  return ViT(
    width=size.width,
    depth=size.depth,
    num_heads=size.num_heads,
    mlp_dim=size.mlp_dim,
    patch_size=size.patch_size,
    num_classes=num_classes,
    representation_size=variants.representation_size(model),
    **{key: getattr(model, key) for key in _SHARED_KEYS},
  )


# Keys that a ViT takes as `config.model` has them.
_SHARED_KEYS = (
  "image_size",
  "drop_remainder",
  "pool",
  "pos_embedding",
  "pos_embedding_at",
  "dropout_rate",
  "stochastic_depth_rate",
  "head_bias_init",
  "dtype",
  "softmax_dtype",
  "attention",
  "scan_layers",
  "remat",
  "normalize",
  "gelu",
  "layer_norm_eps",
  "qkv_bias",
)

MODELS = {"vit": _vit}
