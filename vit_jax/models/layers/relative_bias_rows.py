"""Rows of a table of relative biases, as in BEiT.

Imports neither jax nor flax, so that networks can be detected from files and
their parameters counted without them.
"""

import math

# Rows of pairs with the class token: as query, as key, and as both.
NUM_CLS_ROWS = 3


def num_rows(grid: tuple[int, int]) -> int:
  """Rows of the table for a grid of patches: one per offset, plus three."""
  rows, columns = grid
  return (2 * rows - 1) * (2 * columns - 1) + NUM_CLS_ROWS


def side(rows: int) -> int | None:
  """Side of the square of patches with so many rows; None if there is none."""
  found = (math.isqrt(max(rows - NUM_CLS_ROWS, 0)) + 1) // 2
  return found if found and num_rows((found, found)) == rows else None
