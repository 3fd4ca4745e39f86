"""Rotary positions of patches, arXiv 2104.09864, as in EVA-02.

Neighbouring units of a head form pairs, rotated by an angle that grows with the
patch's row in the first half of the head, and with its column in the second
half. Scores of rotated queries and keys then depend on the offset between
patches.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec
from jaxtyping import Array, Float

from vit_jax.models.layers import placement


@jax.custom_vjp
def rotate(
  x: Float[Array, "b n heads k"], turns: Float[Array, "2 n k"]
) -> Float[Array, "b n heads k"]:
  """Rotates the pairs of units (a, b) to (a cos - b sin, b cos + a sin).

  Computed in float32. The turns are constants without a gradient.

  Args:
    x: Queries or keys.
    turns: Result of `rope_table.table`.
  """
  cosines, sines = turns[:, None, :, None].astype(jnp.float32)
  wide, quarter_turned = (y.astype(jnp.float32) for y in (x, _quarter_turn(x)))
  return (wide * cosines + quarter_turned * sines).astype(x.dtype)


def _backward(turns, gradient):
  # The inverse of a rotation is its transpose.
  cosines, sines = turns
  back = jnp.stack([cosines, -sines])
  return rotate(gradient, back), jnp.zeros_like(turns)


rotate.defvjp(lambda x, turns: (rotate(x, turns), turns), _backward)


def rotate_side_by_side(
  x: Float[Array, "b n d"], turns: Float[Array, "2 n k"]
) -> Float[Array, "b n d"]:
  """`rotate` for heads that lie side by side, d = heads * k.

  Each device rotates the heads that it holds.

  Args:
    x: Queries or keys, with their biases.
    turns: Result of `rope_table.table`; it has no gradient.
  """
  head_size = turns.shape[-1]
  num_heads = x.shape[-1] // head_size
  where = placement.of(("batch", None, "heads"), batch=len(x), heads=num_heads)

  def run(x, turns):
    of_all = jnp.tile(turns, (1, 1, x.shape[-1] // head_size))
    return rotate(x[:, :, None], of_all)[:, :, 0]

  spec = where.spec
  return where.on_each_device(run, in_specs=(spec, PartitionSpec()))(x, turns)


def _quarter_turn(x):
  """The pairs (a, b) as (-b, a), exactly."""
  size = x.shape[-1]
  if placement.platform() == "gpu":
    is_first = np.arange(size) % 2 == 0
    return jnp.where(
      is_first, -jnp.roll(x, -1, axis=-1), jnp.roll(x, 1, axis=-1)
    )
  # TPUs are slow at moving single units, but the product with this matrix is
  # exact, as each sum has one term. GPUs move units without writing them, and
  # would write the product.
  matrix = np.kron(np.eye(size // 2), [[0, 1], [-1, 0]])
  return jnp.einsum(
    "bnhk,kj->bnhj", x, jnp.asarray(matrix, x.dtype), precision="highest"
  )
