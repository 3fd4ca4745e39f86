"""A small ViT's parameters and configs, for all tests of optimizers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.config import schema


def _tree(seed, num_layers=3):
  rng = np.random.default_rng(seed)

  def array(*shape):
    return jnp.asarray(rng.normal(size=shape), jnp.float32)

  blocks = {
    f"encoderblock_{i}": {
      "LayerNorm_0": {"scale": array(8)},
      "MlpBlock_0": {"Dense_0": {"bias": array(16), "kernel": array(8, 16)}},
      "MultiHeadDotProductAttention_0": {
        "out": {"kernel": array(2, 4, 8)},
        "query": {"bias": array(2, 4), "kernel": array(8, 2, 4)},
      },
    }
    for i in range(num_layers)
  }
  return {
    "Transformer": {
      **blocks,
      "encoder_norm": {"scale": array(8)},
      "posembed_input": {"pos_embedding": array(1, 5, 8)},
    },
    "cls": jnp.full((1, 1, 8), 0.5, jnp.float32),
    "embedding": {"kernel": array(4, 4, 3, 8)},
    "head": {"bias": array(5), "kernel": array(8, 5)},
  }


@pytest.fixture
def params():
  """Parameters of three layers, one by one."""
  return _tree(0)


@pytest.fixture
def grads():
  """Gradients of the same structure."""
  return _tree(1)


@pytest.fixture
def stack():
  """A function that stacks the layers as scan_layers does."""

  def stack_layers(tree):
    inner = dict(tree["Transformer"])
    names = sorted(name for name in inner if name.startswith("encoderblock"))
    blocks = [inner.pop(name) for name in names]
    inner["encoderblock"] = jax.tree.map(
      lambda *x: jnp.asarray(np.stack(x)), *blocks
    )
    return {**tree, "Transformer": inner}

  return stack_layers


@pytest.fixture
def config():
  """A function making configs of a constant rate 0.1 without clipping."""

  def make(schedule=None, **optimizer):
    return schema.Config(
      total_steps=100,
      optimizer=schema.Optimizer(**({"grad_clip_norm": None} | optimizer)),
      schedule=schema.Schedule(
        **(schedule or {"base_lr": 0.1, "decay": "constant"})
      ),
    )

  return make
