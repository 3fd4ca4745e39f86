"""Maps of the visible patches of images alone, for masked autoencoders.

Such a map holds the patches one below the other, b (k * s) s c: an image whose
width is a patch. Everything that a ConvNeXt computes at single places, or
within a patch, is the same there as in the map of the whole image. Only the
depthwise convolutions look further: they are given zeros for hidden patches,
and their results there are dropped, as in a sparse convolution.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def choose(
  visible: Int[Array, "b v"], rows: int, columns: int
) -> Float[Array, "b v rows columns"]:
  """Returns ones at the place of each visible patch, row by row."""
  chosen = jax.nn.one_hot(visible, rows * columns)
  return chosen.reshape(*visible.shape, rows, columns)


def spread(
  x: Float[Array, "b ks s c"], chosen: Float[Array, "b v rows columns"]
) -> Float[Array, "b h w c"]:
  """Puts visible patches at their places in maps that are zero elsewhere."""
  batch, count, rows, columns = chosen.shape
  size, channels = x.shape[2:]
  patches = x.reshape(batch, count, size, size, channels)
  whole = _product("bkyx,bkpqc->bypxqc", chosen, patches)
  return whole.reshape(batch, rows * size, columns * size, channels)


def collect(
  maps: Float[Array, "b h w c"], chosen: Float[Array, "b v rows columns"]
) -> Float[Array, "b ks s c"]:
  """Takes the visible patches of maps: the inverse of `spread`."""
  batch, count, rows, columns = chosen.shape
  size, channels = maps.shape[1] // rows, maps.shape[3]
  shape = (batch, rows, size, columns, size, channels)
  patches = _product("bkyx,bypxqc->bkpqc", chosen, maps.reshape(shape))
  return patches.reshape(batch, count * size, size, channels)


def _product(equation, chosen, values):
  # A product with ones and zeros is exact.
  return jnp.einsum(
    equation, chosen.astype(values.dtype), values, precision="highest"
  )
