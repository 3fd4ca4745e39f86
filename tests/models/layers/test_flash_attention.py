"""Attention of long inputs by jax's kernel, emulated, against products."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.pallas import tpu as pltpu

from tests.models.networks import assert_trees_close
from vit_jax.config import named_sections
from vit_jax.errors import UserError
from vit_jax.models.layers import flash_attention, placement
from vit_jax.models.layers.attention import MultiHeadAttention
from vit_jax.models.layers.mlp import LayerConfig
from vit_jax.models.vit import checks


def _plain(query, key, value):
  scores = jnp.einsum("bhqk,bhnk->bhqn", query, key)
  weights = jax.nn.softmax(scores / np.sqrt(query.shape[-1]))
  return jnp.einsum("bhqn,bhnk->bhqk", weights, value)


@pytest.mark.parametrize("length", [127, 130])  # A block, and two.
def test_result_and_gradients_are_those_of_attention(monkeypatch, length):
  monkeypatch.setattr(flash_attention, "BLOCK_SIZES", (128,))
  rng = np.random.default_rng(0)
  *arrays, grad = jnp.float32(rng.standard_normal((4, 1, 2, length, 8)))
  expected, pull_expected = jax.vjp(_plain, *arrays)
  with pltpu.force_tpu_interpret_mode():
    result, pull = jax.vjp(flash_attention.attend, *arrays)
    grads = pull(grad)
  np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
  assert_trees_close(grads, pull_expected(grad), rtol=1e-4, atol=1e-4)


def test_block_pads_least():
  # H/14 at 518 px and B/16 at 1024 px: to 1536 and 4224 tokens.
  assert flash_attention.block_size(1370) == 512
  assert flash_attention.block_size(4097) == 384
  # 512 and 256 both pad to 512: the larger has fewer steps.
  assert flash_attention.block_size(500) == 512


def test_layer_on_a_tpu_is_the_plain_one(monkeypatch):
  monkeypatch.setattr(placement, "platform", lambda: "tpu")
  monkeypatch.setattr(flash_attention, "BLOCK_SIZES", (128,))
  rng = np.random.default_rng(0)
  tokens = jnp.float32(rng.standard_normal((1, 9, 16)))
  flash, plain = (
    MultiHeadAttention(LayerConfig(2, 8, attention=attention))
    for attention in ("flash", "xla")
  )
  params = plain.init(jax.random.key(0), tokens, tokens)
  with pltpu.force_tpu_interpret_mode():
    result = flash.apply(params, tokens, tokens)
  expected = plain.apply(params, tokens, tokens)
  np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_without_tpu_and_gpu_says_what_to_use():
  if jax.default_backend() != "cpu":
    pytest.skip("needs a machine without TPU and GPU")
  layer = MultiHeadAttention(LayerConfig(3, 8, attention="flash"))
  tokens = jnp.zeros((1, 4, 12))
  params = layer.init(jax.random.key(0), tokens, tokens)
  with pytest.raises(UserError, match="a TPU or .* GPU.*attention='xla'"):
    layer.apply(params, tokens, tokens)


def test_relative_positions_are_refused():
  model = named_sections.section(
    "model", variant="Ti/16", attention="flash", pos_embedding="relative"
  )
  with pytest.raises(UserError, match="'flash' does not take"):
    checks.check(model)
