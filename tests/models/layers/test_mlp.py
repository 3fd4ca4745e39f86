"""The MLP of a block."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models import oracle
from vit_jax.models.layers.mlp import LayerConfig, MlpBlock


@pytest.mark.parametrize("gelu", ["tanh", "exact"])
def test_mlp_is_two_dense_layers_with_a_gelu(gelu):
  rng = np.random.default_rng(0)
  x = jnp.asarray(rng.standard_normal((2, 3, 8)), jnp.float32)
  mlp = MlpBlock(LayerConfig(num_heads=2, mlp_dim=12, gelu=gelu), train=False)
  params = mlp.init(jax.random.key(0), x)["params"]
  expected = oracle.mlp(np.asarray(x, np.float64), params, gelu)
  np.testing.assert_allclose(
    mlp.apply({"params": params}, x), expected, rtol=1e-4, atol=1e-5
  )


@pytest.mark.parametrize("norm", [False, True])
def test_swiglu_is_a_product_of_two_layers(norm):
  rng = np.random.default_rng(0)
  x = rng.standard_normal((2, 3, 8))
  keys = dict(mlp="swiglu", mlp_norm=norm, layer_norm_eps=0.01)
  mlp = MlpBlock(LayerConfig(num_heads=2, mlp_dim=12, **keys), train=False)
  params = mlp.init(jax.random.key(0), jnp.float32(x))["params"]
  params = jax.tree.map(
    lambda p: rng.standard_normal(p.shape).astype(np.float32), params
  )

  def dense(name, x):
    return x @ params[name]["kernel"] + params[name]["bias"]

  gate = dense("gate", x)
  hidden = gate / (1 + np.exp(-gate)) * dense("Dense_0", x)
  if norm:
    mean, variance = hidden.mean(-1), hidden.var(-1)
    hidden = (hidden - mean[..., None]) / np.sqrt(variance + 0.01)[..., None]
    hidden = hidden * params["LayerNorm_0"]["scale"]
    hidden = hidden + params["LayerNorm_0"]["bias"]
  np.testing.assert_allclose(
    mlp.apply({"params": params}, jnp.float32(x)),
    dense("Dense_1", hidden),
    rtol=1e-4,
    atol=1e-4,
  )


def test_dropout_follows_both_dense_layers():
  """With half of each dropped, both kinds of zeros are seen."""
  config = LayerConfig(num_heads=2, mlp_dim=64, dropout_rate=0.5)
  mlp = MlpBlock(config, train=True)
  x = jnp.ones((1, 40, 8))
  rngs = {"params": jax.random.key(0), "dropout": jax.random.key(1)}
  result, _ = mlp.init_with_output(rngs, x)
  # After Dense_1: zeros; before it: rows that differ although inputs do not.
  assert 0.3 < np.mean(result == 0) < 0.7
  kept = result[0, :, 0][result[0, :, 0] != 0]
  assert len(np.unique(kept)) == len(kept)
