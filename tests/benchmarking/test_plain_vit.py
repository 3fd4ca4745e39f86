"""Ours and the straightforward network of Flax's layers are one function."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from tests.models.networks import assert_trees_close, random_params, tiny
from vit_jax.benchmarking.plain_vit import PlainViT

PLAIN = PlainViT(
  width=16, depth=3, num_heads=2, mlp_dim=24, patch_size=4, num_classes=5
)


def test_results_and_gradients_are_equal(images):
  images = jnp.asarray(images)
  params = random_params(tiny())

  @functools.partial(jax.jit, static_argnums=1)
  @functools.partial(jax.value_and_grad, has_aux=True)
  def loss_and_grads(params, model):
    logits = model.apply({"params": params}, images, train=True)
    return jnp.sum(jnp.sin(logits)), logits

  (_, ours), our_grads = loss_and_grads(params, tiny())
  (_, plain), grads = loss_and_grads(params, PLAIN)
  np.testing.assert_allclose(ours, plain, rtol=1e-5, atol=1e-5)
  assert_trees_close(our_grads, grads)


def test_both_start_from_the_same_parameters(images):
  """Same names, shapes and distributions: one key gives one start."""
  images = jnp.asarray(images)
  assert_trees_close(
    jax.jit(tiny().init)(jax.random.key(0), images),
    jax.jit(PLAIN.init)(jax.random.key(0), images),
    rtol=1e-6,
    atol=0,
  )


def test_dropout_acts_in_training_only(images):
  images = jnp.asarray(images)
  model = PLAIN.clone(dropout_rate=0.5)
  params = random_params(tiny())
  rngs = {"dropout": jax.random.key(0)}
  still = model.apply({"params": params}, images)
  moved = model.apply({"params": params}, images, train=True, rngs=rngs)
  np.testing.assert_array_equal(still, PLAIN.apply({"params": params}, images))
  assert not np.allclose(still, moved)
