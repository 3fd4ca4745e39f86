"""The weighted mean and its hand-written gradients against plain softmax."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.models.weighted_mean import weighted_mean


def _inputs(scale=3.0, dtype="float32"):
  rng = np.random.default_rng(0)
  scores = scale * rng.standard_normal((2, 3, 5, 7))
  values = rng.standard_normal((2, 3, 7, 4))
  return jnp.asarray(scores, dtype), jnp.asarray(values, dtype)


def _plain(scores, values):
  weights = jax.nn.softmax(scores.astype(jnp.float32))
  return jnp.einsum("bhqn,bhnk->bhqk", weights, values.astype(jnp.float32))


def _gradients(function, scores, values):
  def loss(scores, values):
    return jnp.sum(jnp.sin(function(scores, values).astype(jnp.float32)))

  return jax.grad(loss, argnums=(0, 1))(scores, values)


@pytest.mark.parametrize("scale", [0.0, 3.0, 1e4])
def test_mean_and_gradients_are_those_of_softmax(scale):
  scores, values = _inputs(scale)
  np.testing.assert_allclose(
    weighted_mean(scores, values), _plain(scores, values), rtol=1e-5, atol=1e-6
  )
  for ours, plain in zip(
    _gradients(weighted_mean, scores, values),
    _gradients(_plain, scores, values),
    strict=True,
  ):
    np.testing.assert_allclose(ours, plain, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("softmax_dtype", ["float32", "bfloat16"])
def test_bfloat16_mean_and_gradients_are_near(softmax_dtype):
  scores, values = _inputs(dtype="bfloat16")

  def ours(scores, values):
    return weighted_mean(scores, values, softmax_dtype)

  assert ours(scores, values).dtype == jnp.bfloat16
  np.testing.assert_allclose(
    np.float32(ours(scores, values)), _plain(scores, values), atol=0.03
  )
  for mine, plain in zip(
    _gradients(ours, scores, values),
    _gradients(_plain, scores, values),
    strict=True,
  ):
    assert mine.dtype == jnp.bfloat16
    np.testing.assert_allclose(
      np.float32(mine), np.float32(plain), rtol=0.05, atol=0.03
    )


def test_a_shift_of_a_row_of_scores_changes_nothing():
  scores, values = _inputs()
  shifted = weighted_mean(scores + 50.0, values)
  np.testing.assert_allclose(
    shifted, weighted_mean(scores, values), rtol=1e-4, atol=1e-5
  )
  dscores, _ = _gradients(weighted_mean, scores, values)
  np.testing.assert_allclose(jnp.sum(dscores, -1), 0, atol=1e-5)


def test_one_array_of_scores_is_kept_for_the_backward_pass():
  scores, values = _inputs(dtype="bfloat16")
  _, backward = jax.vjp(weighted_mean, scores, values)
  kept = [x for x in jax.tree.leaves(backward) if x.size >= scores.size]
  assert [x.dtype for x in kept] == [jnp.bfloat16]
