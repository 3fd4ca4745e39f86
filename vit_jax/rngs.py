"""Random keys derived from (seed, name, step); none is carried or saved."""

import zlib

import jax
from jaxtyping import Array, Int, Key


def stream(seed: int, name: str, step: int | Int[Array, ""]) -> Key[Array, ""]:
  """Returns the key of stream `name` at `step`; may be called under jit."""
  named = jax.random.fold_in(jax.random.key(seed), zlib.crc32(name.encode()))
  return jax.random.fold_in(named, step)
