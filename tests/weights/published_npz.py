"""A tiny ViT as google-research's writers would have written it."""

import functools
import re

import numpy as np

from tests.models import networks
from vit_jax.weights import flat


def vit(**keys):
  """A module, and its random parameters by flat published names."""
  model, params = _vit(tuple(keys.items()))
  return model, dict(params)


@functools.cache
def _vit(keys):
  model = networks.tiny(**dict(keys))
  return model, flat.flatten(networks.random_params(model))


def pre_linen(params):
  """Modules of a layer counted together."""
  renamed = {}
  for name, leaf in params.items():
    name = re.sub(r"(block_\d+)/LayerNorm_1", r"\1/LayerNorm_2", name)
    name = re.sub(r"(block_\d+)/MlpBlock_0", r"\1/MlpBlock_3", name)
    name = re.sub(
      r"(block_\d+)/(MultiHeadDotProductAttention)_0", r"\1/\2_1", name
    )
    renamed[name] = leaf
  return renamed


def top_level_positions(params, name="pos_embedding"):
  """A table without a row for the class token, as big_vision has it.

  The row moves to the class token, which gives the same tokens.
  """
  params = dict(params)
  table = params.pop("Transformer/posembed_input/pos_embedding")
  if "cls" in params:
    params["cls"] = params["cls"] + table[:, :1]
    table = table[:, 1:]
  return params | {name: table}


def stacked(params):
  """Layers along a first axis."""
  others, layers = {}, {}
  for name, leaf in params.items():
    match = re.fullmatch(r"Transformer/encoderblock_\d+/(.+)", name)
    if match:
      layers.setdefault(match[1], []).append(leaf)
    else:
      others[name] = leaf
  return others | {
    f"Transformer/encoderblock/{name}": np.stack(leaves)
    for name, leaves in layers.items()
  }


def prefixed(params, prefix):
  return {prefix + name: leaf for name, leaf in params.items()}


def four_axes_in_norms(params):
  """Scales and biases of group norms as early Linen kept them."""
  is_norm = re.compile(r"(.*/)?gn[^/]*/(scale|bias)").fullmatch
  return {
    name: leaf[None, None, None] if is_norm(name) else leaf
    for name, leaf in params.items()
  }


def bfloat16(params):
  """Rounded to bfloat16 and without a type, as NumPy stores it."""
  return {
    name: (leaf.view(np.uint32) >> 16).astype(np.uint16).view("V2")
    for name, leaf in params.items()
  }


def saved(path, params):
  np.savez(path, **params)
  return path
