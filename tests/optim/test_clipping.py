"""Gradients are clipped together, or each parameter's by itself."""

import numpy as np
import pytest

from vit_jax.config import schema
from vit_jax.optim import clipping

GRADIENTS = {
  "a": {"kernel": np.full((4, 4), 2.0, np.float32)},  # Norm 8.
  "b": {"bias": np.full(4, 0.5, np.float32)},  # Norm 1.
}


def clipped(gradients, **settings):
  tx = clipping.clip(schema.Optimizer(**settings))
  found, _ = tx.update(gradients, tx.init(gradients), gradients)
  return found


def test_each_parameter_has_its_own_norm():
  found = clipped(GRADIENTS, grad_clip="parameter", grad_clip_norm=2.0)
  np.testing.assert_allclose(found["a"]["kernel"], 0.5, rtol=1e-5)
  np.testing.assert_array_equal(found["b"]["bias"], 0.5)


def test_all_parameters_have_one_norm():
  found = clipped(GRADIENTS, grad_clip_norm=np.sqrt(65) / 2)
  np.testing.assert_allclose(found["a"]["kernel"], 1.0, rtol=1e-5)
  np.testing.assert_allclose(found["b"]["bias"], 0.25, rtol=1e-5)


def test_each_head_beside_a_network_is_a_module():
  gradients = {
    "cls": np.full(9, 4.0, np.float32),  # With the kernel, of norm 13.
    "embedding": {"kernel": np.full(25, 1.0, np.float32)},
    "dino_head": {
      "kernel": np.full(9, 1.0, np.float32),  # With the bias, of norm 5.
      "bias": np.full(4, 2.0, np.float32),
    },
    "ibot_head": {"kernel": np.full(4, 0.5, np.float32)},
  }
  found = clipped(gradients, grad_clip="module", grad_clip_norm=2.5)
  np.testing.assert_allclose(found["cls"], 10 / 13, rtol=1e-5)
  np.testing.assert_allclose(found["embedding"]["kernel"], 2.5 / 13, rtol=1e-5)
  np.testing.assert_allclose(found["dino_head"]["kernel"], 0.5, rtol=1e-5)
  np.testing.assert_allclose(found["dino_head"]["bias"], 1.0, rtol=1e-5)
  np.testing.assert_array_equal(found["ibot_head"]["kernel"], 0.5)


def test_each_layer_of_a_stack_is_a_parameter():
  stack = np.stack([np.full((2, 2), 4.0), np.full((2, 2), 0.5)])
  gradients = {"Transformer": {"encoderblock": {"kernel": stack}}}
  found = clipped(gradients, grad_clip="parameter", grad_clip_norm=2.0)
  found = found["Transformer"]["encoderblock"]["kernel"]
  np.testing.assert_allclose(found[0], 1.0, rtol=1e-5)
  np.testing.assert_allclose(found[1], 0.5, rtol=1e-5)


@pytest.mark.parametrize("grad_clip", ["global", "parameter"])
def test_none_is_off(grad_clip):
  settings = schema.Optimizer(grad_clip=grad_clip, grad_clip_norm=None)
  assert clipping.clip(settings) is None
