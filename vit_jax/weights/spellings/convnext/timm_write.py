"""ConvNeXt and ConvNeXt V2 as timm's ConvNeXt."""

from typing import Any

from vit_jax.config import schema
from vit_jax.models.convnext import sizes
from vit_jax.weights import flat
from vit_jax.weights.spellings import names
from vit_jax.weights.spellings.convnext import timm
from vit_jax.weights.spellings.names import Tensors
from vit_jax.weights.spellings.timm_network import (
  TimmNetwork,
  TimmWriter,
  cannot,
)

_KIND = "ConvNeXt"
_STAGES = 4
# By version and variant, if timm's architecture of that name is identical;
# others are written as a T of other sizes.
_SAME = {
  1: {"T": "tiny", "S": "small", "B": "base", "L": "large", "XL": "xlarge"},
  2: {
    "atto": "atto",
    "femto": "femto",
    "pico": "pico",
    "nano": "nano",
    "T": "tiny",
    "S": "small",
    "B": "base",
    "L": "large",
    "H": "huge",
  },
}


def _network(model: schema.Model) -> TimmNetwork:
  size = sizes.convnext(model)
  if len(size.depths) != _STAGES:
    raise cannot(_KIND, f"model.depths={size.depths}, which are not 4 stages")
  if model.layer_norm_eps != model.head_norm_eps:
    raise cannot(
      _KIND,
      f"model.head_norm_eps={model.head_norm_eps:g} with"
      f" model.layer_norm_eps={model.layer_norm_eps:g}",
    )
  if size.stem_stride == 2 or size.stem_stride >= timm.DILATED_STRIDE:
    raise cannot(_KIND, f"model.stem_stride={size.stem_stride}")
  name = _SAME[size.version].get(model.variant, "tiny")
  arguments: dict[str, Any] = {
    "depths": list(size.depths),
    "dims": list(size.widths),
    "patch_size": size.stem_stride,
    "norm_eps": model.layer_norm_eps,
    # timm's small networks have 1 x 1 convolutions there.
    "conv_mlp": False,
  }
  return TimmNetwork(
    architecture=f"convnext{'v2' * (size.version == 2)}_{name}",
    arguments=arguments,
    pool="avg",
    width=size.widths[-1],
    first_conv="stem.0",
    classifier="head.fc",
    fixed_input_size=False,
  )


def _tensors(model: schema.Model, params: Tensors) -> Tensors:
  del model
  return names.write(flat.unflatten(params), timm.TIMM.names)


WRITER = TimmWriter(
  writes=lambda model: model.name == "convnext",
  network=_network,
  tensors=_tensors,
)
