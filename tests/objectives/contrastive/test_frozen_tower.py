"""An image tower that is not trained: as it was, and not paid for."""

import functools

import jax
import jax.extend.core
import numpy as np
import pytest

from vit_jax import rngs, trees
from vit_jax.config import experiment_file, resolve
from vit_jax.data import facts
from vit_jax.objectives.contrastive import losses
from vit_jax.training import experiment

FROZEN = {"optimizer__freeze": "image/.*"}
# An image tower that outweighs the text tower.
# Frozen, it computes its last layer for all tokens, and a deep one hardly more.
LARGE = {"model__image__depth": 12, "optimizer__name": "sgd"}


def build(**changes):
  """The small run of configs/lit.py."""
  config = experiment_file.load("configs/lit.py", "smoke")
  config.model.dtype = "float32"
  for name, value in changes.items():
    *parents, leaf = name.split("__")
    section = config
    for parent in parents:
      section = section[parent]
    section[leaf] = value
  config = resolve.resolve(config)
  return experiment.build(config, facts.without_data(config))


def batch(parts, seed=0):
  rng = np.random.default_rng(seed)
  limits = {"image": 256, "text": 300, "label": 4}
  return {
    name: jax.device_put(
      rng.integers(0, limits[name], spec.shape).astype(spec.dtype),
      spec.sharding,
    )
    for name, spec in parts.abstract_batch().items()
  }


def test_it_is_equal_to_the_bit_after_training():
  parts = build(ema_decay=0.9, model__image__dropout_rate=0.1)
  state = parts.init_state()
  before = dict(trees.named_leaves(jax.device_get(state.params)))
  for number in range(3):
    state, _ = parts.train_step(state, batch(parts, number))
  params, average = jax.device_get((state.params, state.ema_params))
  for tree in (params, average):
    for path, leaf in trees.named_leaves(tree):
      is_equal = np.array_equal(leaf, before[path])
      assert is_equal == path.startswith("image/"), path


def test_it_has_no_optimizer_state():
  parts = build()
  state = parts.abstract_state
  trained = {k: v for k, v in state.params.items() if k != "image"}
  moments = sum(x.size for x in jax.tree.leaves(state.opt_state) if x.ndim)
  scalars = sum(x.ndim == 0 for x in jax.tree.leaves(trained))
  assert moments == 2 * (trees.num_elements(trained) - scalars)


def is_jaxpr(value):
  return isinstance(value, jax.extend.core.Jaxpr | jax.extend.core.ClosedJaxpr)


def equations(jaxpr):
  """All equations of a program, those of inner programs too."""
  for equation in jaxpr.eqns:
    yield equation
    for value in jax.tree.leaves(equation.params, is_leaf=is_jaxpr):
      if is_jaxpr(value):
        yield from equations(getattr(value, "jaxpr", value))


def products(function, *args):
  """Number of matrix products in a program."""
  jaxpr = jax.make_jaxpr(function)(*args).jaxpr
  names = [one.primitive.name for one in equations(jaxpr)]
  return names.count("dot_general")


@pytest.mark.parametrize("num_micro", [1, 2])
def test_a_layer_of_it_is_in_the_program_once(num_micro):
  def of_step(depth, freeze):
    parts = build(
      model__image__depth=depth,
      optimizer__freeze=freeze,
      train__accumulate_steps=num_micro,
    )
    return products(
      parts.jitted_step,
      parts.abstract_constants,
      parts.abstract_state,
      parts.abstract_batch(),
    )

  def of_forward_pass(depth):
    parts = build(model__image__depth=depth)
    images = {"image": parts.abstract_batch()["image"]}
    return products(
      parts.objective.outputs, parts.abstract_state.params, images
    )

  forward = of_forward_pass(3) - of_forward_pass(2)
  assert forward > 0
  frozen = "image/.*"
  assert of_step(3, frozen) - of_step(2, frozen) == forward
  assert of_step(3, None) - of_step(2, None) >= 3 * forward


def test_flops_and_temporaries_are_those_of_a_forward_pass():
  def cost(**changes):
    compiled = build(**LARGE, **changes).compile()
    flops = compiled.cost_analysis()["flops"]
    return flops, compiled.memory_analysis().temp_size_in_bytes

  flops, temporaries = cost(**FROZEN)
  all_flops, all_temporaries = cost(optimizer__freeze=None)
  assert flops < 0.6 * all_flops
  assert temporaries < 0.5 * all_temporaries


@pytest.mark.parametrize("num_micro", [1, 2])
def test_the_loss_is_of_its_outputs_without_dropout(num_micro):
  parts = build(
    train__accumulate_steps=num_micro, model__image__dropout_rate=0.5
  )
  state, pairs = parts.init_state(), batch(parts)
  found = parts.objective.outputs(state.params, pairs)
  wanted = losses.sigmoid_loss(
    found["image_embedding"], found["text_embedding"], 10.0, -2.71
  )
  keys = functools.partial(rngs.stream, 0, step=0)
  loss, _ = jax.jit(
    lambda params, pairs: parts.objective.loss(params, {}, {}, pairs, keys, 0)
  )(state.params, pairs)
  np.testing.assert_allclose(loss, wanted, rtol=1e-5)


def test_its_outputs_may_be_kept_in_the_home_directory(monkeypatch, tmp_path):
  monkeypatch.setenv("HOME", str(tmp_path))
  parts = build(**FROZEN, objective__cache_frozen="~/cache")
  assert parts.objective.stored.directory == f"{tmp_path}/cache"
