"""A small ViT's parameters and configs, for all tests of optimizers."""

import jax
import jax.numpy as jnp
import pytest

from vit_jax.config import schema


def _block(rng, stack=()):
  def array(index, *shape):
    return jax.random.normal(jax.random.fold_in(rng, index), (*stack, *shape))

  return {
    "LayerNorm_0": {"scale": array(0, 8)},
    "MlpBlock_0": {
      "Dense_0": {"kernel": array(1, 8, 16), "bias": array(2, 16)}
    },
    "MultiHeadDotProductAttention_0": {
      "out": {"kernel": array(3, 2, 4, 8)},
      "query": {"kernel": array(4, 8, 2, 4), "bias": array(5, 2, 4)},
    },
  }


def _tree(seed, num_layers=3):
  rng = jax.random.key(seed)
  blocks = {
    f"encoderblock_{i}": _block(jax.random.fold_in(rng, i))
    for i in range(num_layers)
  }
  return {
    "Transformer": {
      **blocks,
      "encoder_norm": {"scale": jnp.ones(8)},
      "posembed_input": {
        "pos_embedding": jax.random.normal(rng, (1, 5, 8)),
      },
    },
    "cls": jnp.full((1, 1, 8), 0.5, jnp.float32),
    "embedding": {"kernel": jax.random.normal(rng, (4, 4, 3, 8))},
    "head": {"bias": jnp.ones(5), "kernel": jax.random.normal(rng, (8, 5))},
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
    inner["encoderblock"] = jax.tree.map(lambda *x: jnp.stack(x), *blocks)
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
