"""Networks by name. Imports jax only when one is built."""

from typing import TYPE_CHECKING

from vit_jax.config import schema, sizes
from vit_jax.errors import UserError
from vit_jax.models.resnet import checks as resnet_checks
from vit_jax.models.vit import checks as vit_checks
from vit_jax.suggestions import did_you_mean

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
  if model.name not in CHECKS:
    close = did_you_mean(model.name, CHECKS)
    hint = f" Did you mean '{close}'?" if close else ""
    raise UserError(
      f"config.model.name = '{model.name}' is not known.{hint} Known:"
      f" {', '.join(CHECKS)}."
    )
  CHECKS[model.name](model)


def config_of(network: "nn.Module") -> schema.Model:
  """The section that `create` makes this network of.

  `num_classes` is that of its head; where a variant has the network's sizes,
  it is named.
  """
  from vit_jax.models.resnet.network import ResNet

  if isinstance(network, ResNet):
    size = sizes.ResNetSize(network.blocks, network.width)
    keys, shared = sizes.resnet_keys(size), _RESNET_KEYS
  else:
    size = sizes.Size(
      width=network.width,
      depth=network.depth,
      num_heads=network.num_heads,
      mlp_dim=network.mlp_dim,
      patch_size=network.patch_size,
      stem_blocks=network.stem_blocks,
      stem_width=network.stem_width,
    )
    keys, shared = sizes.vit_keys(size), _VIT_KEYS
    keys["representation_size"] = network.representation_size
  keys.update({key: getattr(network, key) for key in shared})
  return schema.Model(num_classes=network.num_classes, **keys)


def _vit(model: schema.Model, num_classes: int | None) -> "nn.Module":
  from vit_jax.models.vit.network import ViT

  size = sizes.vit(model)
  return ViT(
    width=size.width,
    depth=size.depth,
    num_heads=size.num_heads,
    mlp_dim=size.mlp_dim,
    patch_size=size.patch_size,
    stem_blocks=size.stem_blocks,
    stem_width=size.stem_width,
    num_classes=num_classes,
    representation_size=sizes.representation_size(model),
    **{key: getattr(model, key) for key in _VIT_KEYS},
  )


def _resnet(model: schema.Model, num_classes: int | None) -> "nn.Module":
  from vit_jax.models.resnet.network import ResNet

  size = sizes.resnet(model)
  return ResNet(
    blocks=size.blocks,
    width=size.width,
    num_classes=num_classes,
    **{key: getattr(model, key) for key in _RESNET_KEYS},
  )


# Keys that a network takes as `config.model` has them.
_RESNET_KEYS = (
  "image_size",
  "head_bias_init",
  "dtype",
  "remat",
  "normalize",
  "standardization",
)
_VIT_KEYS = (
  *_RESNET_KEYS,
  "drop_remainder",
  "pool",
  "cls_token",
  "norm_after_pool",
  "pos_embedding",
  "pos_embedding_at",
  "dropout_rate",
  "stochastic_depth_rate",
  "softmax_dtype",
  "attention",
  "scan_layers",
  "gelu",
  "layer_norm_eps",
  "qkv_bias",
)

MODELS = {"vit": _vit, "resnet": _resnet}
CHECKS = {"vit": vit_checks.check, "resnet": resnet_checks.check}
