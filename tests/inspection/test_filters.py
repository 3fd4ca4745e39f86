"""The filters that meet the pixels."""

import numpy as np
import pytest

from tests.inspection.networks import network_of
from tests.models.networks import tiny, tiny_hybrid, tiny_resnet
from vit_jax.inspection import filters


def test_filters_of_one_shape_are_one_component():
  rng = np.random.default_rng(0)
  shape, strengths = rng.standard_normal((4, 4, 3)), rng.standard_normal(20)
  kernel = shape[..., None] * strengths
  components, shares = filters.principal_filters(kernel, 5)
  np.testing.assert_allclose(shares, [1, 0, 0, 0, 0], atol=1e-9)
  cosine = np.vdot(components[0], shape) / np.linalg.norm(shape)
  assert abs(cosine) == pytest.approx(1)


def test_components_are_orthonormal_filters():
  kernel = np.random.default_rng(0).standard_normal((4, 4, 3, 30))
  components, _ = filters.principal_filters(kernel, 28)
  assert components.shape == (28, 4, 4, 3)
  flat = components.reshape(28, -1)
  np.testing.assert_allclose(flat @ flat.T, np.eye(28), atol=1e-9)


def test_a_vision_transformers_are_those_of_its_patches():
  network = network_of(tiny())
  kernel = filters.first_kernel(network)
  np.testing.assert_array_equal(kernel, network.params["embedding"]["kernel"])
  assert len(filters.principal_filters(kernel, 28)[0]) == 16


@pytest.mark.parametrize("model", [tiny_hybrid(), tiny_resnet()])
def test_a_roots_are_standardised(model):
  kernel = filters.first_kernel(network_of(model))
  assert kernel.shape == (7, 7, 3, 32)
  np.testing.assert_allclose(kernel.mean(axis=(0, 1, 2)), 0, atol=1e-5)
  np.testing.assert_allclose(kernel.std(axis=(0, 1, 2)), 1, rtol=1e-3)
