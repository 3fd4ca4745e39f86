"""Inputs of the tests of models."""

import numpy as np
import pytest


@pytest.fixture
def images():
  """Four normalised images of 8 x 8 pixels."""
  rng = np.random.default_rng(1)
  return rng.standard_normal((4, 8, 8, 3)).astype(np.float32)


@pytest.fixture
def large_images():
  """Two normalised images of 16 x 16 pixels."""
  rng = np.random.default_rng(2)
  return rng.standard_normal((2, 16, 16, 3)).astype(np.float32)
