"""The codes of VQ-KD: norm_ema_quantizer.py in microsoft/unilm, beit2.

Codes have length 1. They start as centres of the first batch's patches, by
spherical k-means, and then follow the mean direction of the patches that are
assigned to them.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from vit_jax.objectives.vqkd import quantizer

_PASSES = 10  # Of k-means.


def start(
  rng: Key[Array, ""], x: Float[Array, "b k c"], count: int
) -> Float[Array, "t c"]:
  """Finds centres of vectors of length 1.

  Args:
    rng: Key that draws the vectors which the centres start from; some are drawn
      more than once if there are fewer than centres.
    x: Vectors of length 1.
    count: Number of centres.
  """
  rows = x.reshape(-1, x.shape[-1])
  chosen = jax.random.choice(
    rng, len(rows), (count,), replace=len(rows) < count
  )

  def one_pass(_, codes):
    counts, sums = assigned(quantizer.nearest(codes, x), x, count)
    return _moved(codes, counts, sums)

  return jax.lax.fori_loop(0, _PASSES, one_pass, rows[chosen])


def assigned(
  tokens: Int[Array, "b k"], x: Float[Array, "b k c"], count: int
) -> tuple[Float[Array, " t"], Float[Array, "t c"]]:
  """Returns the number of vectors with each token, and their sum."""
  # A product, as accelerators add scattered rows one by one.
  ones = jax.nn.one_hot(tokens, count, dtype=jnp.float32)
  sums = jnp.einsum("bkt,bkc->tc", ones, x, precision="highest")
  return ones.sum(axis=(0, 1)), sums


def updated(
  codes: Float[Array, "t c"],
  counts: Float[Array, " t"],
  sums: Float[Array, "t c"],
  momentum: float,
) -> Float[Array, "t c"]:
  """Moves codes towards the vectors assigned to them.

  Args:
    codes: Codes, of length 1.
    counts: Numbers of vectors of each code, up to a common factor.
    sums: Sums of these vectors, up to the same factor.
    momentum: Fraction of a code that is kept.
  """
  wanted = _moved(codes, counts, sums)
  return quantizer.unit(momentum * codes + (1 - momentum) * wanted)


def _moved(codes, counts, sums):
  """Directions of the sums; a code without vectors stays where it is."""
  return jnp.where(counts[:, None] > 0, quantizer.unit(sums), codes)
