"""Tokens with positions, and the gradient of a table that examples share."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.config import schema
from vit_jax.models.layers import placement
from vit_jax.models.layers.position_add import add_positions
from vit_jax.sharding import activations
from vit_jax.sharding import mesh as mesh_lib


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("platform", ["cpu", "gpu"])
def test_sum_and_gradients_are_those_of_numpy(dtype, platform, monkeypatch):
  monkeypatch.setattr(placement, "platform", lambda: platform)
  rng = np.random.default_rng(0)
  tokens, grad = jnp.asarray(rng.normal(size=(2, 64, 5, 6)), dtype)
  table = jnp.float32(rng.normal(size=(5, 6)))
  result, pull = jax.vjp(add_positions, tokens, table)
  assert result.dtype == tokens.dtype
  rounded = np.float32(table.astype(dtype))
  tolerance = {"float32": 1e-6, "bfloat16": 0.01}[dtype]
  np.testing.assert_allclose(
    np.float32(result), np.float32(tokens) + rounded, tolerance, tolerance
  )
  of_tokens, of_table = pull(grad)
  np.testing.assert_array_equal(of_tokens, grad)
  # It is summed, and kept, in float32 whatever the tokens are.
  assert of_table.dtype == jnp.float32
  wanted = np.float64(np.float32(grad)).sum(0)
  np.testing.assert_allclose(of_table, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("platform, fixed", [("cpu", False), ("gpu", True)])
def test_the_order_of_gradients_in_memory_is_fixed_on_gpus(
  platform, fixed, monkeypatch
):
  monkeypatch.setattr(placement, "platform", lambda: platform)

  def gradients(tokens, table, grad):
    return jax.vjp(add_positions, tokens, table)[1](grad)

  tokens, table = jnp.ones((2, 5, 6)), jnp.ones((5, 6))
  text = jax.jit(gradients).lower(tokens, table, tokens).as_text()
  assert ("@LayoutConstraint" in text) == fixed


def test_devices_order_their_own_examples(monkeypatch):
  monkeypatch.setattr(placement, "platform", lambda: "gpu")
  mesh = mesh_lib.create_mesh(schema.Mesh(data=2, fsdp=2), jax.devices()[:4])

  def gradients(tokens, table, grad):
    return jax.vjp(add_positions, tokens, table)[1](grad)

  split = mesh_lib.batch_sharding(mesh)
  whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
  program = jax.jit(
    activations.on(mesh, gradients),
    in_shardings=(split, whole, split),
    out_shardings=(split, whole),
  )
  tokens, table = jnp.ones((8, 5, 6)), jnp.ones((5, 6))
  text = program.lower(tokens, table, tokens).compile().as_text()
  assert "f32[2,5,6]" in text
  assert "f32[8,5,6]" not in text
