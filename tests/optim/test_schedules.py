import math

import jax
import numpy as np
import optax
import pytest

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.optim import schedules


def _schedule(total_steps=100, batch_size=10, num_examples=100, **keys):
  return schedules.learning_rate(
    schema.Schedule(**keys),
    total_steps=total_steps,
    batch_size=batch_size,
    num_examples=num_examples,
  )


def test_papers_linear_decay_has_its_closed_form():
  # H/14 on JFT: 14 epochs of 303M images, batch 4096, warmup 10k, end 1e-5.
  total = round(14 * 303e6 / 4096)
  rate = _schedule(
    total, base_lr=3e-4, warmup_steps=10_000, decay="linear", end_lr=1e-5
  )
  assert rate(0) == 0
  np.testing.assert_allclose(rate(1), 3e-8, rtol=1e-6)
  np.testing.assert_allclose(rate(5_000), 1.5e-4, rtol=1e-6)
  np.testing.assert_allclose(rate(10_000), 3e-4, rtol=1e-6)
  halfway = (10_000 + total) // 2
  np.testing.assert_allclose(rate(halfway), (3e-4 + 1e-5) / 2, rtol=1e-5)
  np.testing.assert_allclose(rate(total), 1e-5, rtol=1e-5)


@pytest.mark.parametrize(
  ("keys", "expected"),
  [
    ({"decay": "constant", "end_lr": 1.0}, lambda t: 0.4),
    ({"decay": "linear", "end_lr": 0.1}, lambda t: 0.4 - 0.3 * t / 80),
    (
      {"decay": "cosine", "end_lr": 0.1},
      lambda t: 0.1 + 0.3 * (1 + math.cos(math.pi * t / 80)) / 2,
    ),
    (
      {"decay": "rsqrt", "rsqrt_timescale": 10, "end_lr": 0.2},
      lambda t: max(0.4 * math.sqrt(10 / (10 + t)), 0.2),
    ),
    (
      {"decay": "steps", "boundaries": (40, 60, 80), "end_lr": 0.001},
      lambda t: max(0.4 * 0.1 ** ((t >= 20) + (t >= 40) + (t >= 60)), 0.001),
    ),
  ],
)
def test_every_shape_has_its_closed_form_under_jit(keys, expected):
  rate = _schedule(base_lr=0.4, warmup_steps=20, **keys)
  traced = jax.jit(jax.vmap(rate))(np.arange(101))
  warm = [0.4 * t / 20 for t in range(20)]
  decayed = [expected(t) for t in range(81)]
  np.testing.assert_allclose(traced, warm + decayed, rtol=2e-5, atol=1e-8)
  assert traced.dtype == np.float32
  np.testing.assert_allclose(rate(33), traced[33], rtol=1e-6)


@pytest.mark.parametrize(
  ("keys", "expected"),
  [
    (
      {"decay": "cosine", "end_lr": 0.1},
      lambda t: 0.1 + 0.3 * (1 + math.cos(math.pi * t / 100)) / 2,
    ),
    ({"decay": "linear"}, lambda t: 0.4 - 0.4 * t / 100),
    (
      {"decay": "rsqrt", "rsqrt_timescale": 10},
      lambda t: 0.4 * math.sqrt(10 / (10 + t)),
    ),
  ],
)
def test_without_prefix_the_shape_counts_from_step_0(keys, expected):
  # timm's CosineLRScheduler: to base_lr while t < warmup_t, then the cosine of
  # t / t_initial.
  rate = _schedule(base_lr=0.4, warmup_steps=20, warmup_prefix=False, **keys)
  traced = jax.jit(jax.vmap(rate))(np.arange(101))
  warm = [0.4 * t / 20 for t in range(20)]
  decayed = [expected(t) for t in range(20, 101)]
  np.testing.assert_allclose(traced, warm + decayed, rtol=2e-5, atol=1e-8)


@pytest.mark.parametrize("decay", ["constant", "rsqrt"])
def test_cooldown_ramps_to_zero_on_top_of_the_shape(decay):
  # big_vision's train_vit_g.py in small: rsqrt, warm-up and cooldown.
  keys = {"base_lr": 8e-4, "decay": decay, "warmup_steps": 10}
  keys["rsqrt_timescale"] = 10
  rate = _schedule(total_steps=100, cooldown_steps=50, **keys)
  plain = _schedule(total_steps=100, **keys)
  for step in range(101):
    expected = float(plain(step)) * min(1, (100 - step) / 50)
    np.testing.assert_allclose(rate(step), expected, rtol=1e-6, atol=1e-12)
  shape = math.sqrt(10 / (10 + 80)) if decay == "rsqrt" else 1
  np.testing.assert_allclose(rate(90), 8e-4 * shape * 10 / 50, rtol=1e-6)


def test_cooldown_and_warmup_that_do_not_fit_are_refused():
  with pytest.raises(UserError, match="cooldown_steps = 95 .* 100 of the run"):
    _schedule(total_steps=100, warmup_steps=10, cooldown_steps=95)


def test_without_warmup_the_first_update_has_the_base_rate():
  assert _schedule(base_lr=0.25, decay="cosine")(0) == 0.25


@pytest.mark.parametrize("warmup", [20, "20 steps", "2 epochs", "200 examples"])
def test_durations_in_any_unit_give_the_same_rates(warmup):
  rate = _schedule(base_lr=1.0, warmup_steps=warmup)
  np.testing.assert_allclose(rate(10), 0.5)
  np.testing.assert_allclose(rate(20), 1.0)


@pytest.mark.parametrize(
  ("keys", "message"),
  [
    ({"warmup_steps": 100}, r"schedule.warmup_steps = 100 is 100 steps and"),
    ({"warmup_steps": "10 epochs"}, r"warmup_steps = '10 epochs' is 100 steps"),
    ({"decay": "steps"}, r"schedule.boundaries = \(\)"),
    ({"decay": "steps", "boundaries": (8, 4)}, r"boundaries = .*growing order"),
    ({"decay": "steps", "boundaries": (50, 100)}, r"the last is step 100"),
    ({"base_lr": 0.1, "end_lr": 0.2}, r"end_lr = 0.2 is above"),
    ({"decay": "rsqrt", "rsqrt_timescale": 0}, r"rsqrt_timescale = 0 must"),
  ],
)
def test_a_schedule_that_does_not_fit_is_a_sentence(keys, message):
  with pytest.raises(UserError, match=message):
    _schedule(**keys)


def test_epochs_of_unknown_data_are_a_sentence():
  with pytest.raises(UserError, match="config.schedule.warmup_steps: 1 epochs"):
    _schedule(num_examples=None, warmup_steps="1 epochs")


def test_an_optimizers_schedules_are_set_to_the_step():
  rate = _schedule(base_lr=0.4, decay="linear")
  tx = optax.chain(
    optax.scale_by_adam(),
    optax.add_decayed_weights(lambda step: 0.01 * step),
    optax.scale_by_learning_rate(rate),
  )
  params = {"x": np.ones(2, np.float32)}
  state = schedules.at_step(tx.init(params), np.int32(25))
  grads = {"x": np.full(2, 3.0, np.float32)}
  updates, state = tx.update(grads, state, params)
  # Adam's own count, of updates that were applied, stays: it corrects a bias.
  np.testing.assert_allclose(updates["x"], -0.3 * (1 + 0.25), rtol=1e-5)
