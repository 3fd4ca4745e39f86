"""Resizing learned position embeddings to another grid of patches."""

import numpy as np
from jaxtyping import Float

from vit_jax.models.layers import position_resize
from vit_jax.models.layers.position_resize import square_side


def with_prefix_rows(table: np.ndarray, num_prefix: int = 1) -> np.ndarray:
  """Adds rows of zeros for prefix tokens to a table without them.

  The number of rows decides: a square plus one or two is never a square. A
  table without those rows is added before the prefix tokens are prepended, so
  they have no positions. An array that is not [tables, n, d] is returned
  unchanged.
  """
  if table.ndim != 3 or not square_side(table.shape[1]):
    return table
  return np.pad(table, ((0, 0), (num_prefix, 0), (0, 0)))


def resize(
  table: Float[np.ndarray, "tables n d"],
  old_grid: tuple[int, int],
  new_grid: tuple[int, int],
  *,
  num_prefix: int,
  method: str,
) -> Float[np.ndarray, "tables m d"]:
  """Resizes tables to another grid; rows of prefix tokens are unchanged.

  Args:
    table: Rows of prefix tokens, then of patches in row-major order.
    old_grid: Rows and columns of patches in `table`.
    new_grid: Rows and columns of patches in the result.
    num_prefix: Number of tokens that are not patches, such as the class token.
    method: A value of `config.model.pos_embedding_resize`.
  """
  prefix, patches = table[:, :num_prefix], table[:, num_prefix:]
  if tuple(old_grid) == tuple(new_grid):
    return table
  grid = patches.reshape(len(table), *old_grid, -1).astype(np.float64)
  if method == "bilinear":
    # Imported here because it is rarely needed. For a few sizes (e.g. 8 to 26)
    # rounding puts the last position outside the grid; the border is used
    # there.
    from scipy import ndimage

    zoom = (1, *np.divide(new_grid, old_grid), 1)
    grid = ndimage.zoom(grid, zoom, order=1, mode="nearest")
  else:
    rows, columns = (
      position_resize.matrix(*sizes, method)
      for sizes in zip(old_grid, new_grid, strict=True)
    )
    grid = np.einsum("ir,jc,trcd->tijd", rows, columns, grid, optimize=True)
  resized = grid.reshape(len(table), -1, table.shape[-1]).astype(table.dtype)
  return np.concatenate([prefix, resized], axis=1)
