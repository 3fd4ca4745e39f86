"""The linear layer of a segmentation, against NumPy and closed forms."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.evaluators.segmentation_training import Head, loss

_HEAD = Head(
  width=6,
  num_classes=3,
  steps=10,
  warmup_steps=4,
  learning_rate=0.1,
  weight_decay=0.01,
)
_AT_ONCE = dataclasses.replace(_HEAD, warmup_steps=0)


def _problem(seed=0, side=7):
  rng = np.random.default_rng(seed)
  maps = rng.normal(2, 3, (2, 3, 4, 6)).astype(np.float32)
  label = rng.integers(0, 3, (2, side, side)).astype(np.uint8)
  label[rng.random(label.shape) < 0.3] = 255
  return maps, label


def _interpolated(scores, side):
  """Bilinear between centres, the outermost values going on outside."""

  def along(values, axis):
    length = values.shape[axis]
    centres = (np.arange(side) + 0.5) * length / side - 0.5
    low = np.floor(centres).astype(int)
    share = (centres - low).reshape([-1 if i == axis else 1 for i in range(4)])
    first, second = (
      np.take(values, np.clip(index, 0, length - 1), axis)
      for index in (low, low + 1)
    )
    return first * (1 - share) + second * share

  return along(along(scores, 1), 2)


def _logits(params, maps, mean, var, side):
  normal = (maps - mean) / np.sqrt(var + 1e-5)
  scaled = normal * params["scale"] + params["shift"]
  return _interpolated(scaled @ params["kernel"] + params["bias"], side)


def _cross_entropy(logits, label):
  """Mean over labelled pixels, one at a time."""
  losses = []
  for place in np.argwhere(label != 255):
    scores = logits[tuple(place)].astype(np.float64)
    largest = scores.max()
    total = largest + np.log(np.exp(scores - largest).sum())
    losses.append(total - scores[label[tuple(place)]])
  return np.mean(losses)


def _random_state(seed=3):
  rng = np.random.default_rng(seed)
  state = jax.device_get(_HEAD.init())
  params = {
    name: rng.normal(size=value.shape).astype(np.float32)
    for name, value in state["params"].items()
  }
  return state | {"params": params}


def _update(state, maps, label, is_example=(True, True)):
  arguments = jax.tree.map(
    jnp.asarray, (state, maps, label, np.array(is_example))
  )
  return jax.device_get(jax.jit(_AT_ONCE.update)(*arguments))


def test_logits_are_a_batch_norm_a_layer_and_an_interpolation():
  maps, _ = _problem()
  rng = np.random.default_rng(4)
  running = {"mean": rng.normal(size=6), "var": rng.uniform(1, 9, 6)}
  running = {n: x.astype(np.float32)[None] for n, x in running.items()}
  state = _random_state() | {"running": running}
  wanted = _logits(state["params"], maps, running["mean"], running["var"], 7)
  found = jax.jit(_HEAD.logits, static_argnums=2)(state, jnp.asarray(maps), 7)
  np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_a_step_follows_the_loss_of_the_batchs_own_statistics():
  maps, label = _problem()
  state = _random_state()
  mean, var = maps.mean(axis=(0, 1, 2)), maps.var(axis=(0, 1, 2))

  def loss_of(params):
    return _cross_entropy(_logits(params, maps, mean, var, 7), label)

  after, value = _update(state, maps, label)
  assert float(value) == pytest.approx(loss_of(state["params"]), rel=1e-5)
  # The first step of Adam is its rate in the direction of each gradient.
  rate = float(_AT_ONCE.rate(0))
  for name, value in state["params"].items():
    for index in [(0,) * value.ndim, (-1,) * value.ndim]:
      step = np.zeros_like(value, np.float64)
      step[index] = 1e-4
      slope = loss_of({**state["params"], name: value + step})
      slope -= loss_of({**state["params"], name: value - step})
      wanted = value[index] - rate * (np.sign(slope) + 0.01 * value[index])
      found = after["params"][name][index]
      assert found == pytest.approx(wanted, abs=1e-3 * rate)
  # PyTorch's running statistics, of the unbiased variance.
  running = after["running"]
  wanted = 0.1 * mean[None]
  np.testing.assert_allclose(running["mean"], wanted, rtol=1e-5, atol=1e-6)
  unbiased = maps.reshape(-1, 6).var(axis=0, ddof=1)
  wanted = 0.9 + 0.1 * unbiased[None]
  np.testing.assert_allclose(running["var"], wanted, rtol=1e-5)


@pytest.mark.parametrize("filling", [0.0, 50.0, np.nan])
def test_rows_that_fill_a_batch_up_change_nothing(filling):
  maps, label = _problem()
  state = _random_state()
  wanted = _update(state, maps, label)
  found = _update(
    state,
    np.concatenate([maps, np.full((3, *maps.shape[1:]), filling, np.float32)]),
    np.concatenate([label, np.full((3, 7, 7), 255, np.uint8)]),
    [True, True, False, False, False],
  )
  # The signs of Adam's first step; a gradient of 0 would be another.
  jax.tree.map(
    lambda one, other: np.testing.assert_allclose(
      one, other, rtol=1e-4, atol=1e-5
    ),
    found,
    wanted,
  )


def test_pixels_without_a_label_have_no_gradient():
  _, label = _problem()
  logits = np.random.default_rng(5).normal(size=(*label.shape, 3))
  logits, labels = jnp.asarray(logits, jnp.float32), jnp.asarray(label)
  grad = np.asarray(jax.grad(loss)(logits, labels))
  assert (grad[label == 255] == 0).all()
  assert (np.abs(grad[label != 255]).max(axis=-1) > 0).all()


def test_a_batch_without_labels_changes_nothing_but_the_decay():
  maps, label = _problem()
  state = _random_state()
  after, value = _update(state, maps, np.full_like(label, 255))
  assert value == 0
  rate = float(_AT_ONCE.rate(0))
  for name, before in state["params"].items():
    wanted = before * (1 - rate * 0.01)
    np.testing.assert_allclose(after["params"][name], wanted, rtol=1e-6)


def test_the_rate_rises_and_falls_in_straight_lines():
  rates = [float(_HEAD.rate(step)) for step in range(11)]
  falling = [0.1 * (1 - step / 10) for step in range(11)]
  assert rates[4:] == pytest.approx(falling[4:], abs=1e-8)
  rising = [falling[step] * step / 4 for step in range(4)]
  assert rates[:4] == pytest.approx(rising, abs=1e-6)
  assert 0 < rates[0] < 1e-6
  found = [float(_AT_ONCE.rate(step)) for step in range(11)]
  assert found == pytest.approx(falling, abs=1e-8)
