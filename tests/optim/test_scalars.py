"""Scalars as functions of the updates done, against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.errors import UserError
from vit_jax.optim import build, scalars

STEPS = 40


def values(text, *, batch_size=8, num_examples=64, total_steps=STEPS):
  at = scalars.schedule(
    text,
    key="config.x",
    total_steps=total_steps,
    batch_size=batch_size,
    num_examples=num_examples,
  )
  return np.asarray(jax.jit(jax.vmap(at))(jnp.arange(total_steps)))


def test_a_cosine_is_that_of_dino():
  """Closed form of DINO's cosine_scheduler without warm-up."""
  steps = np.arange(STEPS)
  wanted = 0.4 + 0.5 * (0.04 - 0.4) * (1 + np.cos(np.pi * steps / STEPS))
  np.testing.assert_allclose(values("cosine(0.04, 0.4)"), wanted, rtol=1e-5)


def test_a_warmup_comes_first():
  found = values("linear(1.0, 0.0, warmup=10, warmup_from=0.5)")
  np.testing.assert_allclose(found[:11], np.linspace(0.5, 1.0, 11), rtol=1e-6)
  np.testing.assert_allclose(
    found[10:], 1 - np.arange(30) / 30, rtol=1e-5, atol=1e-6
  )


def test_a_change_per_epoch_is_that_of_a_table_of_epochs():
  """DINO's teacher temperature: np.linspace over epochs, then constant."""
  found = values("linear(0.04, 0.07, over='2 epochs', per='epoch')")
  table = np.concatenate([np.linspace(0.04, 0.07, 3), np.full(2, 0.07)])
  np.testing.assert_allclose(found, np.repeat(table, 8), rtol=1e-5)


@pytest.mark.parametrize(("batch_size", "num_examples"), [(8, 27), (16, 5)])
def test_epochs_need_not_be_whole_batches(batch_size, num_examples):
  found = values(
    "linear(0, 1, per='epoch')",
    batch_size=batch_size,
    num_examples=num_examples,
  )
  starts = {-(-e * num_examples // batch_size) for e in range(10**3)}
  changes = {0, *(np.flatnonzero(np.diff(found)) + 1)}
  assert changes == {step for step in starts if step < STEPS}


def test_a_constant_stays():
  assert set(values(0.25)) == {np.float32(0.25)}


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("cosine(0, 1, warmup=40)", "config.x = .*warms up for 40 steps"),
    ("cosine(0, 1, per='epoch')", "config.x changes per epoch"),
    ("cosine(0, 1, over='1 epochs')", "config.x: 1 epochs cannot be counted"),
  ],
)
def test_what_does_not_fit_the_run_is_a_sentence(text, message):
  with pytest.raises(UserError, match=message):
    values(text, num_examples=None)


def test_weight_decay_follows_its_schedule(config, params):
  zeros = jax.tree.map(jnp.zeros_like, params)
  text = "linear(0.1, 0.5)"
  tx, scheduled = build.build(
    config({"base_lr": 1.0, "decay": "constant"}, weight_decay=text),
    params=params,
    total_steps=4,
    batch_size=8,
    num_examples=None,
  )
  state, update = tx.init(params), jax.jit(tx.update)
  for step, rate in enumerate((0.1, 0.2, 0.3, 0.4)):
    updates, state = update(zeros, state, params)
    kernel = params["embedding"]["kernel"]
    np.testing.assert_allclose(
      updates["embedding"]["kernel"], -rate * kernel, rtol=1e-5
    )
    np.testing.assert_allclose(scheduled["weight_decay"](step), rate, rtol=1e-6)
