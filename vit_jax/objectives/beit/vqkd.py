"""The tokenizer of BEiT v2: modeling_vqkd.py in microsoft/unilm, beit2.

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
from vit_jax.weights.spellings.vit.vqkd import CODEBOOK


@functools.cache
def is_in(path: str) -> bool:
  """Returns True if a state dict is that of VQ-KD.

  Raises:
    UserError: The file cannot be read as data.
  """
  contents = torch_file.read(epath.Path(path))
  nested = [one for one in contents.values() if isinstance(one, Mapping)]
  return any(CODEBOOK in one for one in (contents, *nested))


def tokens(
  params: Mapping[str, Any], features: Float[Array, "b k d"]
) -> Int[Array, "b k"]:
  """Computes the tokens of patches in float32.

  Args:
    params: `hidden`, `code` and `codebook`, as read from the file.
    features: Normalised features of the patches after the encoder.
  """
  # TPUs would round to bfloat16, and a token is an argmin.
  dense = nn.Dense(params["hidden"]["bias"].size, precision="highest")
  x = jnp.tanh(dense.apply({"params": params["hidden"]}, features))
  dense = nn.Dense(params["code"]["bias"].size, precision="highest")
  x = dense.apply({"params": params["code"]}, x)
  # As torch.nn.functional.normalize.
  length = jnp.linalg.norm(x, axis=-1, keepdims=True)
  x = x / jnp.maximum(length, 1e-12)
  codes = jnp.asarray(params["codebook"])
  similarity = jnp.einsum("bkc,tc->bkt", x, codes, precision="highest")
  distance = jnp.sum(jnp.square(codes), axis=-1)[None, None] - 2 * similarity
  return jnp.argmin(distance, axis=-1).astype(jnp.int32)


def flops(params: Mapping[str, Any], num_patches: int) -> int:
  """Counts FLOPs of an image's tokens, two per multiply-add."""
  sizes = (
    params["hidden"]["kernel"].size,
    params["code"]["kernel"].size,
    params["codebook"].size,
  )
  return 2 * num_patches * sum(sizes)
