"""Stochastic depth: branches that some examples skip. arXiv 1603.09382."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, Shaped

from vit_jax.models.layers.skipping_groups import Groups


def skip_examples(
  branch: Float[Array, "b ..."],
  rate: float | Float[Array, ""],
  key: Key[Array, ""],
) -> Float[Array, "b ..."]:
  """Zeroes the branch for some examples and scales it up for the others.

  Args:
    branch: Result to be added to the input that it was computed from.
    rate: Probability that an example skips the branch, below 1.
    key: Random key for drawing the examples.
  """
  shape = (branch.shape[0], *(1,) * (branch.ndim - 1))
  kept = jax.random.bernoulli(key, 1 - rate, shape)
  return branch * (kept.astype(jnp.float32) / (1 - rate)).astype(branch.dtype)


def add_branch(
  branch: Callable[..., Float[Array, "k r d"]],
  tokens: Float[Array, "b n d"],
  groups: Groups,
  key: Key[Array, ""],
  *others: Shaped[Array, "b ..."] | None,
) -> Float[Array, "b r d"]:
  """Adds a branch to a random part of each group, computing it only there.

  The branch is scaled up to keep its expectation. If the groups' size divides
  the number of examples on a device, nothing moves between devices; the draw is
  the same on any mesh.

  Args:
    branch: Function of tokens and `others`; its result, which may have fewer
      tokens, is added to the first ones.
    tokens: Residual stream.
    groups: Groups of examples.
    key: Random key for drawing the examples.
    *others: Further arrays of the examples, such as a mask, or None.
  """
  size, kept = groups.in_batch(len(tokens))
  drawn = jax.random.uniform(key, (len(tokens) // size, size))
  places = jnp.argsort(drawn, axis=1)[:, :kept]

  def taken(array):
    return None if array is None else _take(array, places)

  kept_tokens, tokens = _take_along(tokens, places)
  found = branch(kept_tokens, *map(taken, others))
  found = found * jnp.asarray(size / kept, found.dtype)
  return _add(tokens[:, : found.shape[1]], places, found)


@jax.custom_vjp
def _take_along(
  array: Float[Array, "b ..."], places: Int[Array, "groups kept"]
) -> tuple[Float[Array, "k ..."], Float[Array, "b ..."]]:
  """The rows at some places of each group, and the unchanged array.

  Using the returned array makes the gradient a single in-place sum; jax would
  create an array of zeros, add to it and then add two whole arrays.
  """
  return _take(array, places), array


def _take_along_forward(array, places):
  return _take_along(array, places), places


def _take_along_backward(places, grads):
  grad_of_rows, grad = grads
  return _add(grad, places, grad_of_rows), None


_take_along.defvjp(_take_along_forward, _take_along_backward)


def _take(array, places):
  groups = array.reshape(len(places), -1, *array.shape[1:])
  rows = jax.vmap(lambda group, places: group[places])(groups, places)
  return rows.reshape(-1, *array.shape[1:])


def _add(array, places, rows):
  groups = array.reshape(len(places), -1, *array.shape[1:])
  rows = rows.reshape(*places.shape, *rows.shape[1:])
  added = jax.vmap(
    lambda group, places, rows: group.at[places].add(rows, unique_indices=True)
  )(groups, places, rows)
  return added.reshape(array.shape)
