"""Rows of a table of relative biases, as BEiT has them.

Imports neither jax nor flax, so that networks are told from their files and
their parameters counted without them.
"""

import math

# Rows of pairs with the class token: it asks, it is asked, both.
NUM_CLS_ROWS = 3


def num_rows(grid: tuple[int, int]) -> int:
  """Rows of the table for a grid of patches: one for each offset, and three."""
  rows, columns = grid
  return (2 * rows - 1) * (2 * columns - 1) + NUM_CLS_ROWS


def side(rows: int) -> int | None:
  """Side of the square of patches that has so many rows; None if none has."""
  found = (math.isqrt(max(rows - NUM_CLS_ROWS, 0)) + 1) // 2
  return found if found and num_rows((found, found)) == rows else None
