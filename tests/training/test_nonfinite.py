"""The first tensor that is not finite is named."""

import dataclasses
import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

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


@pytest.mark.parametrize("accumulates", [False, True])
def test_micro_batches_are_looked_at_one_after_the_other(accumulates):
  """As the step has them, for memory may not hold more; unless a loss does."""
  seen = []

  def loss(params, constants, objective_state, batch, keys, step):
    x = batch["x"]
    seen.append((x[:, 0].tolist(), jax.random.key_data(keys("dropout"))))
    return nn.Dense(2).apply({"params": params}, x)

  objective = dataclasses.replace(
    experiments.build().objective,
    loss=loss,
    prepare=lambda batch, keys: batch,
    accumulates=accumulates,
  )
  params = nn.Dense(2).init(jax.random.key(0), jnp.ones((1, 1)))["params"]
  bad = nonfinite.first_bad_tensor(
    objective,
    params,
    {},
    {},
    {"x": jnp.asarray([[0.0], [1.0], [2.0], [3.0], [jnp.inf], [5.0]])},
    KEYS,
    0,
    np.ones(2, bool),
    accumulate_steps=3,
  )
  assert bad.startswith("the output of ")
  if accumulates:
    assert [examples for examples, _ in seen] == [[0, 1, 2, 3, np.inf, 5]]
    return
  # Every third example; the third micro-batch is not needed.
  assert [examples for examples, _ in seen] == [[0, 3], [1, np.inf]]
  for index, (_, key) in enumerate(seen):
    folded = jax.random.fold_in(KEYS("dropout"), index)
    np.testing.assert_array_equal(key, jax.random.key_data(folded))
