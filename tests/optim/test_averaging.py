import jax
import jax.numpy as jnp
import numpy as np

from vit_jax.optim import averaging


def test_decay_grows_to_its_final_value():
  assert averaging.decay_at(0, 0.9999) == np.float32(0.1)
  np.testing.assert_allclose(averaging.decay_at(90, 0.9999), 0.91)
  np.testing.assert_allclose(averaging.decay_at(10**6, 0.9999), 0.9999)
  np.testing.assert_allclose(averaging.decay_at(90, 0.9), 0.9)


def test_average_is_the_recurrence_computed_in_float64():
  values = np.random.default_rng(0).normal(size=(50, 3))
  expected = np.full(3, 7.0)
  average = averaging.init({"x": jnp.full(3, 7.0)})
  for step, value in enumerate(values):
    average = averaging.update(
      average, {"x": jnp.asarray(value)}, decay=0.8, step=step
    )
    decay = min(0.8, (1 + step) / (10 + step))
    expected = decay * expected + (1 - decay) * value
  np.testing.assert_allclose(average["x"], expected, rtol=1e-5)


def test_without_warmup_the_decay_is_constant_from_the_first_update():
  values = np.random.default_rng(0).normal(size=(5, 3))
  expected = np.full(3, 7.0)
  average = averaging.init(jnp.full(3, 7.0))
  for step, value in enumerate(values):
    average = averaging.update(
      average, jnp.asarray(value), decay=0.99, step=step, warmup=False
    )
    expected = 0.99 * expected + 0.01 * value
  np.testing.assert_allclose(average, expected, rtol=1e-5)


def test_initial_parameters_vanish_quickly():
  average = averaging.init(jnp.ones(()))
  for step in range(100):
    average = averaging.update(average, jnp.zeros(()), decay=0.9999, step=step)
  assert average < 1e-9


def test_average_of_constant_parameters_is_exact():
  params = {"x": jnp.asarray([0.1, -3.0])}
  update = jax.jit(averaging.update, static_argnames="decay")
  average = update(averaging.init(params), params, decay=0.9999, step=3)
  np.testing.assert_array_equal(average["x"], params["x"])


def test_initial_average_can_be_donated_with_the_parameters():
  @jax.jit
  def start():
    params = {"x": jnp.ones(3)}
    return params, averaging.init(params)

  params, average = start()
  step = jax.jit(lambda p, a: (p, a), donate_argnums=(0, 1))
  jax.block_until_ready(step(params, average))
