"""What XLA for TPUs makes of our kernels, and of the layers around them."""

import math
import re

import flax.linen as nn
import jax
import jax.numpy as jnp
import pytest

from tests.aot import chip
from tests.models.networks import tiny
from vit_jax.aot import hlo_text
from vit_jax.models.convnext.network import Block
from vit_jax.models.layers.attention import MultiHeadAttention
from vit_jax.models.layers.mlp import LayerConfig
from vit_jax.models.swin.window_attention import WindowAttention

BATCH = 8


def compiled(module: nn.Module, *inputs: jax.ShapeDtypeStruct) -> str:
  """Forward and backward pass of a module."""
  params = jax.eval_shape(module.init, jax.random.key(0), *inputs)
  return chip.compiled(module.apply, params, *inputs)


def shaped(*shape: int) -> jax.ShapeDtypeStruct:
  return jax.ShapeDtypeStruct((BATCH, *shape), jnp.bfloat16)


def assert_scores_stay_on_the_chip(text: str, num_scores: int) -> None:
  module = hlo_text.parse(text)
  steps = module[module.entry]
  calls = [step for step in steps if "tpu_custom_call" in step.attributes]
  assert len(calls) == 2  # Forward and backward.
  sizes = [math.prod(x.dims) for step in steps for x in step.shapes]
  assert max(sizes) < num_scores


@pytest.mark.parametrize("version", [1, 2])
def test_windows_of_a_swin_are_a_kernel(libtpu, version):
  module = WindowAttention(6, 7, 3, version, 7, "bfloat16", "pallas")
  text = compiled(module, shaped(14, 14, 96))
  assert_scores_stay_on_the_chip(text, BATCH * 4 * 6 * 49**2)


def test_biases_of_a_beit_are_added_in_the_kernel(libtpu):
  class Attention(nn.Module):
    @nn.compact
    def __call__(self, tokens):
      config = LayerConfig(12, 1, dtype="bfloat16", attention="pallas")
      bias = self.param("bias", nn.initializers.zeros, (12, 197, 197))
      return MultiHeadAttention(config)(tokens, tokens, bias=bias)

  text = compiled(Attention(), shaped(197, 768))
  assert_scores_stay_on_the_chip(text, BATCH * 12 * 197**2)


def test_depthwise_convolutions_are_a_kernel_in_the_order_of_their_block(
  libtpu,
):
  block = Block(1, 1e-6, "bfloat16", 0.0, "pallas")
  text = compiled(block, shaped(28, 28, 192))
  module = hlo_text.parse(text)
  steps = module[module.entry]
  calls = [step for step in steps if "tpu_custom_call" in step.attributes]
  assert len(calls) == 2  # Forward and backward.
  assert "feature_group_count" not in text
  # Places are outermost everywhere, as the kernel needs them.
  orders = re.findall(rf"bf16\[{BATCH},28,28,\d+\]\{{([\d,]+)", text)
  assert orders.count("3,0,2,1") > 0.9 * len(orders)


# 48 of 256 lanes are empty, or 59; of 64 tokens half of the lanes would be.
@pytest.mark.parametrize("side, order", [(56, "1,2,0"), (32, "2,1,0")])
def test_the_token_that_is_read_does_not_choose_the_order(libtpu, side, order):
  model = tiny(
    width=192, num_heads=3, mlp_dim=768, image_size=side, dtype="bfloat16"
  )
  text = compiled(model, shaped(side, side, 3))
  length = (side // 4) ** 2 + 1
  orders = re.findall(rf"bf16\[{BATCH},{length},192\]\{{([\d,]+)", text)
  assert orders.count(order) > 0.9 * len(orders)
