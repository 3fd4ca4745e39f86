"""Global response normalisation of faint and of empty maps."""

import jax
import jax.numpy as jnp
import numpy as np

from vit_jax.models.layers.response_norm import GlobalResponseNorm


def test_only_the_mean_of_the_norms_is_kept_from_zero():
  """As in models/utils.py of facebookresearch/ConvNeXt-V2, and in timm.

  The JAX definition in its TRAINING.md adds 1e-6 to the squares as well, which
  would more than double the norms of these maps.
  """
  rng = np.random.default_rng(0)
  x = 1e-4 * rng.standard_normal((2, 3, 3, 4))
  scale = rng.standard_normal(4)
  norms = np.sqrt((x**2).sum(axis=(1, 2), keepdims=True))
  strength = norms / (norms.mean(axis=3, keepdims=True) + 1e-6)
  wanted = scale * (x * strength) + x
  params = {"scale": jnp.float32(scale), "bias": jnp.zeros(4)}
  found = GlobalResponseNorm("float32").apply(
    {"params": params}, jnp.float32(x)
  )
  np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-10)


def test_empty_maps_have_finite_gradients():
  """The norm's slope has no limit at 0, where 0 is taken, as torch does."""
  rng = np.random.default_rng(0)
  x = rng.standard_normal((2, 3, 3, 4)).astype(np.float32)
  x[..., 1] = 0
  params = {"scale": np.ones(4, np.float32), "bias": np.ones(4, np.float32)}

  def loss(params, x):
    return jnp.sum(
      jnp.sin(GlobalResponseNorm("float32").apply({"params": params}, x))
    )

  grads = jax.grad(loss, argnums=(0, 1))(params, x)
  for leaf in jax.tree.leaves(grads):
    assert np.isfinite(leaf).all()


def test_all_maps_empty_give_the_bias():
  params = {"scale": np.ones(4, np.float32), "bias": np.full(4, 2, np.float32)}
  found = GlobalResponseNorm("float32").apply(
    {"params": params}, jnp.zeros((1, 2, 2, 4))
  )
  np.testing.assert_array_equal(found, np.full((1, 2, 2, 4), 2))
