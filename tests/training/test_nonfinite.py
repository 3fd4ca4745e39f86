"""The first tensor that is not finite is named."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from tests import experiments
from vit_jax import rngs
from vit_jax.training import nonfinite

KEYS = functools.partial(rngs.stream, 0, step=0)


def first_bad(parts, params, grad_finite=None):
  num = len(jax.tree.leaves(params))
  return nonfinite.first_bad_tensor(
    parts.objective,
    params,
    {},
    {},
    experiments.batch(parts),
    KEYS,
    0,
    np.ones(num, bool) if grad_finite is None else grad_finite,
  )


def test_a_bad_parameter_is_named():
  parts = experiments.build()
  params = parts.init_state().params
  params["head"]["bias"] = params["head"]["bias"].at[1].set(jnp.inf)
  assert first_bad(parts, params) == "the parameter head/bias"


def test_an_overflow_in_the_forward_pass_is_named_by_its_module():
  parts = experiments.build()
  params = parts.init_state().params
  block = params["Transformer"]["encoderblock_1"]["MlpBlock_0"]
  block["Dense_1"]["kernel"] = jnp.full_like(block["Dense_1"]["kernel"], 3e38)
  bad = first_bad(parts, params)
  assert bad.startswith("the output of Transformer/encoderblock_1/MlpBlock_0")


def test_otherwise_the_first_bad_gradient_is_named():
  parts = experiments.build()
  params = parts.init_state().params
  flags = np.ones(len(jax.tree.leaves(params)), bool)
  flags[-1] = False
  assert first_bad(parts, params, flags) == "the gradient of head/kernel"


def test_a_finite_network_leaves_the_loss():
  parts = experiments.build()
  assert first_bad(parts, parts.init_state().params) == "the loss itself"
