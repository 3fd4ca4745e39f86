"""Twenty steps beside those of big_vision's recipe, put together from optax.

google-research/big_vision (optax.py, utils.py) chains clipping by the global
norm, the optimizer, the base rate, a decay that the rate does not multiply, and
the schedule. Where it has wd = rate * w, ours is w.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests import experiments
from vit_jax import trees
from vit_jax.models import build as models_build
from vit_jax.optim import build as optim_build

STEPS, WARMUP, COOLDOWN = 20, 4, 6
RATE, DECAY, EPS = 3e-3, 0.1, 1e-3
B1, B2 = 0.9, 0.95
FORMS = {
  "adam, linear": {"schedule__decay": "linear"},
  "adam, cosine": {"schedule__decay": "cosine"},
  "adafactor, rsqrt": {
    "schedule__decay": "rsqrt",
    "schedule__rsqrt_timescale": 5,
    "schedule__cooldown_steps": COOLDOWN,
    "optimizer__name": "adafactor",
    "optimizer__clipping_threshold": None,
    "optimizer__decay_multipliers": (("head/kernel", 100.0),),
  },
}


def factor(decay, step):
  """The schedule's factor on the base rate."""
  ramp = min(1, step / WARMUP)
  progress = min(max((step - WARMUP) / (STEPS - WARMUP), 0), 1)
  if decay == "linear":
    return ramp * (1 - progress)
  if decay == "cosine":
    return ramp * 0.5 * (1 + np.cos(np.pi * progress))
  shape = 1 / np.sqrt(1 + max(step - WARMUP, 0) / 5)
  return ramp * shape * min(1, (STEPS - step) / COOLDOWN)


def big_visions(name, mu_dtype):
  """The transformation of big_vision's trainer."""
  clip = optax.clip_by_global_norm(1.0)
  if name == "adafactor":
    optimizer = optax.chain(
      optax.scale_by_factored_rms(
        min_dim_size_to_factor=32,
        decay_rate_fn=lambda step, power: jnp.minimum(
          B2, 1 - (jnp.asarray(step, jnp.float32) + 1) ** -power
        ),
      ),
      optax.ema(B1, debias=False, accumulator_dtype=mu_dtype),
    )
    multiples = {"head/kernel": 100.0}
  else:
    optimizer = optax.scale_by_adam(B1, B2, EPS, mu_dtype=mu_dtype)
    multiples = {}

  def decays(params):
    return trees.map_named(
      lambda path, x: (
        RATE * DECAY * multiples.get(path, 1.0) * x
        if path.endswith("/kernel")
        else jnp.zeros_like(x)
      ),
      params,
    )

  def update(grads, state, params, scale):
    grads, _ = clip.update(grads, clip.init(params))
    directions, state = optimizer.update(grads, state, params)
    changes = jax.tree.map(
      lambda direction, decayed: -scale * (RATE * direction + decayed),
      directions,
      decays(params),
    )
    return optax.apply_updates(params, changes), state

  # Compiled as one, like ours: the first moment is rounded in the same places.
  return optimizer.init, jax.jit(update)


def settings(form, mu_dtype):
  """The same recipe in our config's words."""
  return form | {
    "total_steps": STEPS,
    "train__preprocess": "decode|resize",
    "objective__loss": "sigmoid",
    "schedule__base_lr": RATE,
    "schedule__warmup_steps": WARMUP,
    "optimizer__weight_decay": DECAY,
    "optimizer__b1": B1,
    "optimizer__b2": B2,
    "optimizer__eps": EPS,
    "optimizer__mu_dtype": mu_dtype,
    "optimizer__grad_clip_norm": 1.0,
  }


@pytest.fixture(params=FORMS.values(), ids=FORMS)
def form(request):
  return request.param


def test_twenty_steps_of_training_are_big_visions(form):
  parts = experiments.build(**settings(form, "float32"))
  model = models_build.create(parts.config.model, num_classes=4)

  @jax.jit
  def loss_and_grad(params, image, label):
    def loss(params):
      pixels = image.astype(jnp.float32) / 127.5 - 1
      logits = model.apply({"params": params}, pixels)
      signs = 2 * jax.nn.one_hot(label, 4) - 1
      return -jax.nn.log_sigmoid(signs * logits).sum(axis=-1).mean()

    return jax.value_and_grad(loss)(params)

  init, update = big_visions(parts.config.optimizer.name, jnp.float32)
  state = parts.init_state()
  params = jax.device_get(state.params)
  # Zeros in the head would hide what is below it for a step.
  head = np.random.default_rng(0).normal(size=(32, 4)) * 0.1
  params["head"]["kernel"] = head.astype(np.float32)
  placed = jax.device_put(params, parts.shardings.params)
  state = state.replace(params=placed)
  theirs = init(params)
  for step in range(STEPS):
    batch = experiments.batch(parts, step)
    loss, grads = loss_and_grad(params, batch["image"], batch["label"])
    scale = factor(parts.config.schedule.decay, step)
    params, theirs = update(grads, theirs, params, scale)
    state, metrics = parts.train_step(state, batch)
    np.testing.assert_allclose(metrics["loss"], loss, rtol=1e-5)
  assert_close(jax.device_get(state.params), params, mean=1e-7, each=1e-6)


# Both are given the same gradients: two programs that compute them differ in
# the last bit, and a moment rounded up here and down there moves one by 2**-9
# rates.
def test_twenty_updates_with_a_moment_in_bfloat16_are_big_visions(form):
  config = experiments.config(**settings(form, "bfloat16"))
  rng = np.random.default_rng(0)

  def normal():
    return {
      "head": {
        "kernel": rng.normal(size=(32, 512)).astype(np.float32),
        "bias": rng.normal(size=512).astype(np.float32),
      }
    }

  ours = params = normal()
  tx, _ = optim_build.build(
    config, params=params, total_steps=STEPS, batch_size=16, num_examples=64
  )

  @jax.jit
  def our_update(grads, state, params):
    updates, state = tx.update(grads, state, params)
    return optax.apply_updates(params, updates), state

  init, update = big_visions(config.optimizer.name, jnp.bfloat16)
  our_state, state = tx.init(ours), init(params)
  for step in range(STEPS):
    grads = normal()
    ours, our_state = our_update(grads, our_state, ours)
    scale = factor(config.schedule.decay, step)
    params, state = update(grads, state, params, scale)
  assert_close(ours, params, mean=1e-6, each=1e-4)


def assert_close(ours, theirs, mean, each):
  """Compares parameters by the mean and the largest difference of a leaf."""
  for (name, actual), (_, expected) in zip(
    trees.named_leaves(ours), trees.named_leaves(theirs), strict=True
  ):
    if name.endswith("/key/bias"):
      continue  # No softmax depends on it: Adafactor scales rounding up to 1.
    difference = np.abs(np.asarray(actual) - np.asarray(expected))
    assert difference.mean() < mean and difference.max() < each, name
