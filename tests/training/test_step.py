"""The train step: one function, whatever the mesh and the micro-batches."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests import experiments
from vit_jax import trees
from vit_jax.training import step as step_lib


def run(steps=4, **changes):
  """Losses and final parameters of a few steps on fixed batches."""
  parts = experiments.build(**changes)
  state, losses = parts.init_state(), []
  for number in range(steps):
    state, metrics = parts.train_step(state, experiments.batch(parts, number))
    losses.append(float(metrics["loss"]))
  return np.array(losses), jax.device_get(state.params)


def assert_same(first, second, rtol=2e-4):
  np.testing.assert_allclose(first[0], second[0], rtol=1e-5)
  for (name, x), (_, y) in zip(
    trees.named_leaves(first[1]), trees.named_leaves(second[1]), strict=True
  ):
    np.testing.assert_allclose(x, y, rtol=rtol, atol=1e-4, err_msg=name)


# SGD: Adam's first steps blow rounding up where gradients vanish.
SGD = {"optimizer__name": "sgd"}


@pytest.mark.slow
@pytest.mark.parametrize(
  "mesh",
  [(4, 1, 1), (1, 4, 1), (1, 1, 4), (2, 1, 2), (1, 2, 2)],
  ids=lambda m: "data{}-fsdp{}-tensor{}".format(*m),
)
def test_every_mesh_trains_as_one_device_does(mesh, monkeypatch):
  one = jax.devices()[:1]
  monkeypatch.setattr("vit_jax.sharding.rules.FSDP_MIN_BYTES", 0)
  many = run(
    mesh__data=mesh[0], mesh__fsdp=mesh[1], mesh__tensor=mesh[2], **SGD
  )
  monkeypatch.setattr(jax, "devices", lambda: one)
  assert_same(many, run(**SGD))


@pytest.mark.slow
@pytest.mark.parametrize(
  "family, mesh",
  [(experiments.RESNET, (1, 4, 1)), (experiments.HYBRID, (1, 2, 2))],
  ids=["resnet", "hybrid"],
)
def test_convolutions_train_on_every_mesh_as_on_one_device(
  family, mesh, monkeypatch
):
  one = jax.devices()[:1]
  monkeypatch.setattr("vit_jax.sharding.rules.FSDP_MIN_BYTES", 0)
  axes = dict(zip(("data", "fsdp", "tensor"), mesh, strict=True))
  changes = {f"mesh__{axis}": size for axis, size in axes.items()}
  many = run(2, **changes, **family, **SGD)
  monkeypatch.setattr(jax, "devices", lambda: one)
  assert_same(many, run(2, **family, **SGD))


@pytest.mark.parametrize("accumulate_steps", [2, 4])
def test_accumulated_micro_batches_train_as_the_whole_batch(accumulate_steps):
  whole = run(**SGD)
  assert_same(whole, run(train__accumulate_steps=accumulate_steps, **SGD))


def test_micro_batches_have_dropout_of_their_own():
  changes = {"train__accumulate_steps": 2, "model__dropout_rate": 0.5}
  parts = experiments.build(**changes)
  batch = experiments.batch(parts)
  halves = [np.asarray(batch["image"][:8])] * 2
  same = np.stack(halves, 1).reshape(16, 8, 8, 3)  # Micro-batches are strided.
  labels = np.repeat(np.asarray(batch["label"][:8]), 2)
  twice = jax.device_put(
    {"image": same, "label": labels}, batch["image"].sharding
  )
  original = parts.objective.loss

  def spy(params, constants, objective_state, batch, rngs, step):
    loss, (aux, metrics) = original(
      params, constants, objective_state, batch, rngs, step
    )
    drawn = jax.random.uniform(rngs("dropout"))
    return loss, (aux, {**metrics, "first": drawn, "second": drawn**2})

  spied = step_lib.build_train_step(
    parts.config,
    dataclasses.replace(parts.objective, loss=spy),
    parts.tx,
    parts.scalars,
    parts.mesh,
    parts.shardings,
    {},
  )
  _, metrics = spied({}, parts.init_state(), twice)
  mean, mean_square = float(metrics["first"]), float(metrics["second"])
  assert mean_square > mean**2 + 1e-6  # Two draws that differ.


def test_an_update_equals_optax_applied_by_hand():
  parts = experiments.build(
    train__preprocess="decode|resize", optimizer__grad_clip_norm=None
  )
  batch = experiments.batch(parts)
  before = jax.device_get(parts.init_state().params)
  state = parts.init_state()
  state, _ = parts.train_step(state, batch)  # Learning rate 0: warmup.
  state, metrics = parts.train_step(state, batch)

  def loss(params):
    key = lambda name: jax.random.key(0)  # noqa: E731
    return parts.objective.loss(params, {}, {}, batch, key, 0)[0]

  mask = trees.map_named(lambda name, _: name.endswith("kernel"), before)
  tx = optax.adamw(parts.scalars["learning_rate"], weight_decay=0.1, mask=mask)
  params, opt_state = before, tx.init(before)

  @jax.jit
  def update(params, opt_state):
    grads = jax.grad(loss)(params)
    updates, opt_state = tx.update(grads, opt_state, params)
    return grads, optax.apply_updates(params, updates), opt_state

  for _ in range(2):
    grads, params, opt_state = update(params, opt_state)
  for (name, x), (_, y) in zip(
    trees.named_leaves(jax.device_get(state.params)),
    trees.named_leaves(params),
    strict=True,
  ):
    np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-5, err_msg=name)
  np.testing.assert_allclose(
    metrics["grad_norm"], optax.global_norm(grads), rtol=1e-4
  )


def test_metrics_tell_loss_top1_rate_and_gradient_norm():
  parts = experiments.build()
  _, metrics = parts.train_step(parts.init_state(), experiments.batch(parts))
  # A zero head gives every class the same probability.
  assert float(metrics["loss"]) == pytest.approx(np.log(4), rel=1e-5)
  assert float(metrics["learning_rate"]) == 0.0
  assert float(metrics["grad_norm"]) > 0
  assert 0 <= float(metrics["top1"]) <= 1


def test_a_step_that_is_not_finite_changes_nothing_but_the_step():
  parts = experiments.build(ema_decay=0.9)
  state, _ = parts.train_step(parts.init_state(), experiments.batch(parts))
  poisoned = state.replace(
    params={**state.params, "cls": state.params["cls"].at[0, 0, 0].set(jnp.nan)}
  )
  before = jax.device_get(poisoned)
  after, metrics = parts.train_step(poisoned, experiments.batch(parts))
  assert not metrics["finite"]
  assert not np.all(metrics["grad_finite"])
  after = jax.device_get(after)
  assert after.step == before.step + 1
  for (name, x), (_, y) in zip(
    trees.named_leaves(after.replace(step=0)),
    trees.named_leaves(before.replace(step=0)),
    strict=True,
  ):
    np.testing.assert_array_equal(x, y, err_msg=name)


def test_the_rate_after_skipped_updates_is_the_one_that_is_logged():
  # The change of plain SGD is the rate times the gradient.
  parts = experiments.build(
    optimizer__name="sgd",
    optimizer__momentum=0.0,
    optimizer__weight_decay=0.0,
    optimizer__freeze="(?!head/kernel).*",
    optimizer__grad_clip_norm=None,
  )
  batch = experiments.batch(parts)
  state = parts.init_state()
  before = jax.device_get(state.params)
  broken = jax.tree.map(lambda x: jnp.full_like(x, jnp.nan), state.params)
  state = state.replace(params=broken)
  for _ in range(3):
    state, metrics = parts.train_step(state, batch)
    assert not metrics["finite"]
  placed = jax.device_put(before, parts.shardings.params)
  state, metrics = parts.train_step(state.replace(params=placed), batch)
  assert int(state.step) == 4
  rate = float(parts.scalars["learning_rate"](3))
  assert float(metrics["learning_rate"]) == pytest.approx(rate)
  change = np.asarray(state.params["head"]["kernel"]) - before["head"]["kernel"]
  assert np.linalg.norm(change) == pytest.approx(
    rate * float(metrics["grad_norm"]), rel=1e-3
  )


def test_the_average_is_what_evaluators_see():
  parts = experiments.build(ema_decay=0.5)
  state = parts.init_state()
  params = []
  for number in range(3):
    state, _ = parts.train_step(state, experiments.batch(parts, number))
    params.append(np.asarray(state.params["head"]["kernel"]))
  average = np.zeros_like(params[0])
  for t, value in enumerate(params):
    decay = min(0.5, (1 + t) / (10 + t))
    average = decay * average + (1 - decay) * value
  np.testing.assert_allclose(
    state.eval_params["head"]["kernel"], average, rtol=1e-4, atol=1e-7
  )


def test_what_the_config_freezes_keeps_its_value_and_has_no_gradient():
  parts = experiments.build(
    optimizer__lr_multipliers=(("(?!head/).*", 0.0),), optimizer__name="sgd"
  )
  before = jax.device_get(parts.init_state().params)
  state = parts.init_state()
  for number in range(2):
    state, metrics = parts.train_step(state, experiments.batch(parts, number))
  for (name, x), (_, y) in zip(
    trees.named_leaves(jax.device_get(state.params)),
    trees.named_leaves(before),
    strict=True,
  ):
    assert np.array_equal(x, y) == (not name.startswith("head/")), name
  assert float(metrics["grad_norm"]) > 0


def test_the_state_is_donated():
  parts = experiments.build()
  state = parts.init_state()
  parts.train_step(state, experiments.batch(parts))
  assert all(leaf.is_deleted() for leaf in jax.tree.leaves(state.params))


def test_equal_seeds_train_equally_to_the_bit_and_others_differ():
  changes = {"model__dropout_rate": 0.1}
  first, second = run(**changes), run(**changes)
  np.testing.assert_array_equal(first[0], second[0])
  jax.tree.map(np.testing.assert_array_equal, first[1], second[1])
  assert not np.array_equal(first[0], run(seed=1, **changes)[0])
