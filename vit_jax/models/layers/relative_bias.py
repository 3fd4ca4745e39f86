"""Biases of attention scores by the offset between two patches, as in BEiT.

A table has one row for each offset of rows and columns, and three for pairs
with the class token. Looking up rows would make its gradient a scattered sum,
which accelerators compute one by one; instead the table is multiplied by
matrices of zeros and ones along either axis, which also include the weights
that resize it to another grid.
"""

from typing import NamedTuple

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vit_jax.models.layers import position_resize
from vit_jax.models.layers.relative_bias_rows import NUM_CLS_ROWS, num_rows


class Places(NamedTuple):
  """Grids of patches that a table is for.

  Attributes:
    learned: Rows and columns that the table's parameters are for.
    wanted: Rows and columns of the image.
    resize: A value of `config.model.pos_embedding_resize`.
  """

  learned: tuple[int, int]
  wanted: tuple[int, int]
  resize: str


class RelativeBias(nn.Module):
  """A bias for the score of each key with each query, float32.

  Tokens are the class token and the patches, row by row.
  """

  num_heads: int
  places: Places

  @nn.compact
  def __call__(self) -> Float[Array, "heads n n"]:
    learned, wanted, resize = self.places
    shape = (num_rows(learned), self.num_heads)
    table = jnp.asarray(self.param("table", nn.initializers.zeros, shape))
    offsets = table[:-NUM_CLS_ROWS].reshape(
      *(2 * side - 1 for side in learned), self.num_heads
    )
    by_row, by_column = (
      jnp.asarray(_weights(old, new, resize), table.dtype)
      for old, new in zip(learned, wanted, strict=True)
    )
    # By row of the key and of the query, then by column of each.
    bias = jnp.einsum("kqo,oph->kqph", by_row, offsets, precision="highest")
    bias = jnp.einsum("kqph,ncp->hknqc", bias, by_column, precision="highest")
    num_patches = wanted[0] * wanted[1]
    bias = bias.reshape(self.num_heads, num_patches, num_patches)
    asking, asked, both = table[-NUM_CLS_ROWS:, :, None, None]
    first = jnp.broadcast_to(asked, (self.num_heads, 1, num_patches))
    first = jnp.concatenate([both, first], axis=2)
    column = jnp.broadcast_to(asking, (self.num_heads, num_patches, 1))
    rest = jnp.concatenate([column, bias], axis=2)
    return jnp.concatenate([first, rest], axis=1)


def _weights(
  old: int, new: int, resize: str
) -> Float[np.ndarray, "keys queries offsets"]:
  """Weights of the learned offsets along an axis for each pair of places."""
  places = np.arange(new)
  index = places[None] - places[:, None] + new - 1
  weights = np.eye(2 * new - 1)
  if old != new:
    weights = position_resize.matrix(2 * old - 1, 2 * new - 1, resize)
  return weights[index]
