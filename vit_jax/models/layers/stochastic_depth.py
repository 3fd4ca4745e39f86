"""Stochastic depth: branches that some examples skip. arXiv 1603.09382."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, Shaped

from vit_jax.models.layers.skipping_groups import Groups


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


def add_branch(
  branch: Callable[..., Float[Array, "k n d"]],
  tokens: Float[Array, "b n d"],
  groups: Groups,
  key: Key[Array, ""],
  *others: Shaped[Array, "b ..."] | None,
) -> Float[Array, "b n d"]:
  """Adds a branch to a random part of each group, computing it for that alone.

  What is added is scaled up so that its expectation is that of the whole
  branch. Groups lie within what a device holds if their size divides that, so
  nothing moves between devices; the draw is the same on any mesh.

  Args:
    branch: Function of tokens, and of `others`.
    tokens: Residual stream.
    groups: Groups of examples.
    key: Key that the examples are drawn with.
    *others: Further arrays of the examples, such as a mask; or None.
  """
  size, kept = groups.in_batch(len(tokens))
  number = len(tokens) // size
  drawn = jax.random.uniform(key, (number, size))
  places = jnp.argsort(drawn, axis=1)[:, :kept]

  def grouped(array):
    return array.reshape(-1, size, *array.shape[1:])

  def taken(array):
    if array is None:
      return None
    found = jax.vmap(lambda rows, places: rows[places])(grouped(array), places)
    return found.reshape(-1, *array.shape[1:])

  found = branch(taken(tokens), *map(taken, others))
  found = found * jnp.asarray(size / kept, found.dtype)
  added = jax.vmap(
    lambda rows, places, more: rows.at[places].add(more, unique_indices=True)
  )(grouped(tokens), places, found.reshape(number, kept, *found.shape[1:]))
  return added.reshape(tokens.shape)
