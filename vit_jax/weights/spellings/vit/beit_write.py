"""Writes BEiT as timm's Beit."""

import numpy as np

from vit_jax.config import schema
from vit_jax.models.vit import sizes
from vit_jax.weights import flat
from vit_jax.weights.spellings import names
from vit_jax.weights.spellings.names import Tensors
from vit_jax.weights.spellings.timm_network import (
  TimmNetwork,
  TimmWriter,
  cannot,
  ratio,
  require,
)
from vit_jax.weights.spellings.vit import beit, timm_write

_KIND = "Beit"
_ARCHITECTURES = {768: "base", 1024: "large"}
_WANTED = {
  "registers": 0,
  "distillation": "none",
  "representation_size": None,
  "rope": False,
  "pre_norm": False,
  "mlp": "gelu",
  "mlp_norm": False,
  "gelu": "exact",
  "layer_norm_eps": 1e-6,
}


def _network(model: schema.Model) -> TimmNetwork:
  size = sizes.vit(model)
  require(_KIND, model, _WANTED)
  if size.stem_blocks is not None:
    raise cannot(_KIND, f"model.stem_blocks={size.stem_blocks}")
  if model.pool in ("map", "cls_gap") or not sizes.has_cls(
    model.pool, model.cls_token
  ):
    raise cannot(
      _KIND, f"model.pool='{model.pool}' with model.cls_token={model.cls_token}"
    )
  is_shared = model.pos_embedding_at == "every_layer_shared"
  pool = timm_write.POOLS[model.pool]
  name = _ARCHITECTURES.get(size.width, "base")
  return TimmNetwork(
    architecture=f"beit_{name}_patch16_224",
    arguments={
      "img_size": model.image_size,
      "patch_size": size.patch_size,
      "embed_dim": size.width,
      "depth": size.depth,
      "num_heads": size.num_heads,
      "mlp_ratio": ratio(size.width, size.mlp_dim),
      "qkv_bias": model.qkv_bias,
      "init_values": model.layer_scale or 0,
      "use_abs_pos_emb": False,
      "use_rel_pos_bias": not is_shared,
      "use_shared_rel_pos_bias": is_shared,
      "use_fc_norm": model.norm_after_pool,
      "global_pool": pool,
    },
    pool=pool,
    width=size.width,
    first_conv="patch_embed.proj",
    classifier="head",
    fixed_input_size=True,
  )


def _tensors(model: schema.Model, params: Tensors) -> Tensors:
  found = dict(params)
  bias = np.zeros(sizes.vit(model).width, np.float32)
  found.setdefault("embedding/bias", bias)
  # timm's network has no key bias, and a softmax is the same with any.
  found = {n: x for n, x in found.items() if not n.endswith("/key/bias")}
  written = names.write(flat.unflatten(found), beit.TIMM.names)
  return timm_write.joined(written)


WRITER = TimmWriter(
  writes=lambda model: (
    model.name == "vit" and model.pos_embedding == "relative_bias"
  ),
  network=_network,
  tensors=_tensors,
)
