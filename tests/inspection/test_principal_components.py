"""Principal components against NumPy's singular value decomposition."""

import numpy as np
import pytest

from vit_jax.inspection import principal_components


def rows(num_rows, width, seed=0):
  """Vectors of different spread along mixed axes, away from the origin."""
  rng = np.random.default_rng(seed)
  spread = 2.0 ** -np.arange(width)
  mixing = np.linalg.qr(rng.standard_normal((width, width)))[0]
  return rng.standard_normal((num_rows, width)) * spread @ mixing + 3.0


@pytest.mark.parametrize("shape", [(40, 6), (6, 40), (7, 7)])
def test_components_are_the_singular_vectors(shape):
  x = rows(*shape)
  found = principal_components.find(x, 3)
  _, values, vectors = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
  cosines = np.abs(np.sum(found.directions * vectors[:3], axis=1))
  np.testing.assert_allclose(cosines, 1, atol=1e-6)
  np.testing.assert_allclose(
    found.deviations, values[:3] / np.sqrt(shape[0]), rtol=1e-6
  )
  np.testing.assert_allclose(
    found.shares, values[:3] ** 2 / np.sum(values**2), rtol=1e-6
  )


def test_projections_have_the_components_deviations_and_do_not_correlate():
  x = rows(200, 5)
  found = principal_components.find(x, 5)
  covariance = np.cov(found.project(x), rowvar=False, bias=True)
  np.testing.assert_allclose(
    covariance, np.diag(found.deviations**2), atol=1e-9
  )
  assert found.shares.sum() == pytest.approx(1)


def test_the_sign_does_not_depend_on_the_solver():
  x = rows(40, 6)
  ours = principal_components.find(x, 3).directions
  mirrored = principal_components.find(6.0 - x, 3).directions
  np.testing.assert_allclose(ours, mirrored, atol=1e-9)
  largest = np.argmax(np.abs(ours), axis=1)
  assert (ours[np.arange(3), largest] > 0).all()


def test_there_are_no_more_components_than_rows_or_columns():
  assert len(principal_components.find(rows(4, 9), 28).directions) == 4
  assert len(principal_components.find(rows(9, 4), 28).directions) == 4


def test_equal_vectors_have_components_without_spread():
  found = principal_components.find(np.ones((5, 3)), 2)
  assert np.isfinite(found.directions).all()
  assert not found.deviations.any() and not found.shares.any()
