"""Position embeddings on other grids, as the original code has them."""

import pathlib

import numpy as np
import pytest
import scipy.ndimage
from hypothesis import given
from hypothesis import strategies as st

from vit_jax.weights import position_embeddings

TORCH = np.load(pathlib.Path(__file__).with_name("bicubic.npz"))
CASES = sorted({name.split("/")[0] for name in TORCH.files})
METHODS = ("bilinear", "bicubic", "bicubic_antialias", "bicubic_offset")
sides = st.integers(1, 30)


def table_of(grid, num_prefix=0, tables=1):
  rng = np.random.default_rng(0)
  rows = grid[0] * grid[1] + num_prefix
  return rng.standard_normal((tables, rows, 3)).astype(np.float32)


def by_scipy(table, old, new):
  """What google-research's code does."""
  grid = table.reshape(*old, -1)
  zoom = (new[0] / old[0], new[1] / old[1], 1)
  return scipy.ndimage.zoom(grid, zoom, order=1).reshape(1, -1, 3)


@given(st.tuples(sides, sides), st.tuples(sides, sides))
def test_bilinear_is_scipys_zoom_to_the_bit(old, new):
  table = table_of(old)
  expected = by_scipy(table, old, new).reshape(*new, 3)
  result = position_embeddings.resize(
    table, old, new, num_prefix=0, method="bilinear"
  ).reshape(*new, 3)
  # SciPy's rounding loses the last row or column of a few sizes.
  lost_row = not expected[-1].any()
  lost_column = not expected[:, -1].any()
  rows, columns = new[0] - lost_row, new[1] - lost_column
  np.testing.assert_array_equal(
    result[:rows, :columns], expected[:rows, :columns]
  )


def test_corners_stay_where_scipy_loses_them():
  table = table_of((8, 8))
  assert not by_scipy(table, (8, 8), (26, 26)).reshape(26, 26, 3)[-1].any()
  result = position_embeddings.resize(
    table, (8, 8), (26, 26), num_prefix=0, method="bilinear"
  )
  np.testing.assert_array_equal(result[0, -1], table[0, -1])
  np.testing.assert_array_equal(result[0, 0], table[0, 0])


@pytest.mark.parametrize("method", METHODS[1:])
@pytest.mark.parametrize("case", CASES)
def test_bicubic_is_torchs_interpolation(case, method):
  old, new = (
    tuple(int(side) for side in grid.split("x")) for grid in case.split("_")
  )
  table = TORCH[f"{case}/table"].reshape(1, -1, 2)
  expected = TORCH[f"{case}/{method}"]
  result = position_embeddings.resize(
    table, old, new, num_prefix=0, method=method
  )
  np.testing.assert_allclose(
    result.reshape(expected.shape), expected, rtol=1e-5, atol=5e-6
  )


@pytest.mark.parametrize("method", METHODS)
def test_prefix_tokens_and_every_table_are_kept(method):
  table = table_of((3, 3), num_prefix=2, tables=4)
  result = position_embeddings.resize(
    table, (3, 3), (5, 4), num_prefix=2, method=method
  )
  assert result.shape == (4, 22, 3) and result.dtype == np.float32
  np.testing.assert_array_equal(result[:, :2], table[:, :2])
  alone = position_embeddings.resize(
    table[2:3], (3, 3), (5, 4), num_prefix=2, method=method
  )
  np.testing.assert_allclose(result[2:3], alone, rtol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_a_constant_table_stays_constant_and_the_same_grid_is_no_change(method):
  ones = np.ones((1, 20, 3), np.float32)
  result = position_embeddings.resize(
    ones, (4, 5), (9, 2), num_prefix=0, method=method
  )
  np.testing.assert_allclose(result, 1, rtol=1e-6)
  table = table_of((4, 5))
  same = position_embeddings.resize(
    table, (4, 5), (4, 5), num_prefix=0, method=method
  )
  np.testing.assert_array_equal(same, table)


@pytest.mark.parametrize(
  ("num", "side"), [(16, 4), (1, 1), (15, None), (0, None), (-1, None)]
)
def test_only_squares_have_a_side(num, side):
  assert position_embeddings.square_side(num) == side
