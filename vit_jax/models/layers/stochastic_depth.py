"""Stochastic depth: branches that some examples skip. arXiv 1603.09382."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key


def skip_examples(
  branch: Float[Array, "b ..."],
  rate: float | Float[Array, ""],
  key: Key[Array, ""],
) -> Float[Array, "b ..."]:
  """Zeroes the branch for some examples, and scales it up for the others.

  Args:
    branch: Result that is about to be added to what it was computed from.
    rate: Probability that an example skips it, below 1.
    key: Key that the examples are drawn with.
  """
  shape = (branch.shape[0], *(1,) * (branch.ndim - 1))
  kept = jax.random.bernoulli(key, 1 - rate, shape)
  return branch * (kept.astype(jnp.float32) / (1 - rate)).astype(branch.dtype)
