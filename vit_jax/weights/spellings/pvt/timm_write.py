"""PVT v2 as timm's PyramidVisionTransformerV2."""

import re
from typing import Any

import numpy as np

from vit_jax.config import schema
from vit_jax.models.pvt import sizes
from vit_jax.weights import flat
from vit_jax.weights.spellings import names
from vit_jax.weights.spellings.names import Tensors
from vit_jax.weights.spellings.pvt import timm
from vit_jax.weights.spellings.timm_network import (
  TimmNetwork,
  TimmWriter,
  require,
)

_PART = re.compile(r"(.+\.attn)\.([kv])\.(weight|bias)")


def _network(model: schema.Model) -> TimmNetwork:
  size = sizes.pvt(model)
  require(
    "PyramidVisionTransformerV2",
    model,
    {"layer_norm_eps": 1e-6, "map_norm_eps": 1e-5},
  )
  name = model.variant
  if size.linear_attention:
    name = "b2_li"
  arguments: dict[str, Any] = {
    "depths": list(size.depths),
    "embed_dims": list(size.widths),
    "num_heads": list(size.num_heads),
    "sr_ratios": list(size.reductions),
    "mlp_ratios": list(size.expansions),
    "linear": size.linear_attention,
  }
  return TimmNetwork(
    architecture=f"pvt_v2_{name}",
    arguments=arguments,
    pool="avg",
    width=size.widths[-1],
    first_conv="patch_embed.proj",
    classifier="head",
    fixed_input_size=False,
  )


def _tensors(model: schema.Model, params: Tensors) -> Tensors:
  del model
  written = names.write(flat.unflatten(params), timm.TIMM.names)
  found: dict[str, np.ndarray] = {}
  for name, tensor in written.items():
    match = _PART.fullmatch(name)
    if match is None:
      found[name] = tensor
    elif match[2] == "k":
      value = written[f"{match[1]}.v.{match[3]}"]
      found[f"{match[1]}.kv.{match[3]}"] = np.concatenate([tensor, value])
  return found


WRITER = TimmWriter(
  writes=lambda model: model.name == "pvt",
  network=_network,
  tensors=_tensors,
)
