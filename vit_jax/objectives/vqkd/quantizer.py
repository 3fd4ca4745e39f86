"""The quantizer of VQ-KD: modeling_vqkd.py in microsoft/unilm, beit2.

A patch's feature passes two layers with a tanh between. Its token is the code
nearest to the result, whose length is set to 1.
"""

import functools
from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from etils import epath
from jaxtyping import Array, Float, Int

from vit_jax.weights import torch_file
from vit_jax.weights.spellings.vit.vqkd import MARK


@functools.cache
def is_in(path: str) -> bool:
  """Returns True if a state dict is that of VQ-KD.

  Raises:
    UserError: The file cannot be read as data.
  """
  contents = torch_file.read(epath.Path(path))
  nested = [one for one in contents.values() if isinstance(one, Mapping)]
  return any(MARK in one for one in (contents, *nested))


def directions(
  params: Mapping[str, Any], features: Float[Array, "b k d"]
) -> Float[Array, "b k c"]:
  """Computes what patches are quantised from, vectors of length 1 in float32.

  Args:
    params: The layers `hidden` and `code`.
    features: Normalised features of the patches after the encoder.
  """
  # TPUs would round to bfloat16, and a token is an argmin.
  dense = nn.Dense(params["hidden"]["bias"].size, precision="highest")
  x = jnp.tanh(dense.apply({"params": params["hidden"]}, features))
  dense = nn.Dense(params["code"]["bias"].size, precision="highest")
  return unit(dense.apply({"params": params["code"]}, x))


def unit(x: Float[Array, "*b c"]) -> Float[Array, "*b c"]:
  """Scales vectors to length 1, as torch.nn.functional.normalize."""
  squares = jnp.sum(jnp.square(x), axis=-1, keepdims=True)
  # Clipped under the root, as a length of 0 would have no gradient.
  return x / jnp.sqrt(jnp.maximum(squares, 1e-24))


def nearest(
  codes: Float[Array, "t c"], x: Float[Array, "b k c"]
) -> Int[Array, "b k"]:
  """Returns the index of the code nearest to each vector."""
  similarity = jnp.einsum("bkc,tc->bkt", x, codes, precision="highest")
  distance = jnp.sum(jnp.square(codes), axis=-1)[None, None] - 2 * similarity
  return jnp.argmin(distance, axis=-1).astype(jnp.int32)


def flops(width: int, code_width: int, num_tokens: int) -> int:
  """Counts FLOPs of a patch's token, two per multiply-add."""
  return 2 * (width * (width + code_width) + code_width * num_tokens)
