"""Ours and straightforward networks of Flax's layers are one function."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models.networks import (
  assert_trees_close,
  random_params,
  tiny,
  tiny_convnext,
  tiny_swin,
)
from vit_jax.benchmarking import plain_step
from vit_jax.models import build

NETWORKS = pytest.mark.parametrize(
  "network",
  [tiny(gelu="exact"), tiny_swin(), tiny_convnext()],
  ids=["vit", "swin", "convnext"],
)


@pytest.fixture(autouse=True)
def rank_promotion():
  """Straightforward networks broadcast as NumPy does."""
  with jax.numpy_rank_promotion("allow"):
    yield


def plain_of(network, **keys):
  model = build.config_of(network).model_copy(update=keys)
  return plain_step.network(model, network.num_classes, "float32")


@NETWORKS
def test_results_and_gradients_are_equal(network):
  size = network.image_size
  images = np.random.default_rng(0).standard_normal((2, size, size, 3))
  images = jnp.asarray(images, jnp.float32)
  params = random_params(network)

  @functools.partial(jax.jit, static_argnums=1)
  @functools.partial(jax.value_and_grad, has_aux=True)
  def loss_and_grads(params, model):
    logits = model.apply({"params": params}, images, train=True)
    return jnp.sum(jnp.sin(logits)), logits

  (_, ours), our_grads = loss_and_grads(params, network)
  (_, plain), grads = loss_and_grads(params, plain_of(network))
  np.testing.assert_allclose(ours, plain, rtol=1e-4, atol=1e-5)
  assert_trees_close(our_grads, grads)


@NETWORKS
def test_computes_in_the_dtype_of_the_config(network):
  """What the compiler is asked to compare are steps of one dtype."""
  plain = plain_of(network, dtype="bfloat16")
  size = network.image_size
  images = jax.ShapeDtypeStruct((2, size, size, 3), jnp.bfloat16)
  params = jax.tree.map(jnp.asarray, random_params(network))
  text = jax.jit(plain.apply).lower({"params": params}, images).as_text()
  products = [line for line in text.splitlines() if "dot_general" in line]
  assert products
  factors = [line.split(" : (")[1].split(" -> ")[0] for line in products]
  assert not any("xf32>" in types for types in factors)
