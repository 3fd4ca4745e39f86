"""The linear head."""

import jax
import jax.numpy as jnp
import numpy as np

from vit_jax.models.layers.heads import LinearHead


def test_head_starts_at_its_bias():
  head = LinearHead(5, bias_init=-10.0, dtype="float32")
  x = jnp.ones((2, 8))
  logits, params = head.init_with_output(jax.random.key(0), x)
  np.testing.assert_array_equal(logits, np.full((2, 5), -10.0))
  assert not params["params"]["kernel"].any()


def test_logits_of_bfloat16_are_not_rounded_to_it():
  head = LinearHead(1, bias_init=-10.0, dtype="bfloat16")
  x = jnp.full((1, 1), 2.0**-10, jnp.bfloat16)
  params = {"kernel": jnp.ones((1, 1)), "bias": jnp.full((1,), -10.0)}
  logits = head.apply({"params": params}, x)
  assert logits.dtype == jnp.float32
  assert logits[0, 0] == -10.0 + 2.0**-10
