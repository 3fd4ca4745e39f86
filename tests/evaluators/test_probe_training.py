"""Training of linear classifiers, against NumPy."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from vit_jax.config import schema
from vit_jax.evaluators import probe_protocols, probe_training
from vit_jax.evaluators.features import Examples

_WIDTH, _CLASSES = 6, 3


def _protocol(name, **keys):
  entry = schema.LinearProbeEval(type="linear_probe", protocol=name, **keys)
  return probe_protocols.of(entry)


def _examples(num_examples=40, *, width=_WIDTH, seed=0, spread=1.0):
  rng = np.random.default_rng(seed)
  labels = rng.permutation(np.arange(num_examples) % _CLASSES)
  centres = np.random.default_rng(9).normal(size=(_CLASSES, width))
  noise = rng.normal(scale=spread, size=(num_examples, width))
  features = 3 + 2 * (centres[labels] + noise)
  return Examples(features.astype(np.float32), labels)


@pytest.fixture
def fit(make_mesh):
  """fit(protocol, examples, ...) -> trainer, state."""

  def run(protocol, examples, *, num_devices=1):
    mesh = make_mesh(num_devices)
    size = protocol.batch_size(len(examples.labels))
    trainer = probe_training.Trainer(
      protocol,
      num_classes=_CLASSES,
      batch_size=size,
      steps_per_epoch=len(examples.labels) // size,
      mesh=mesh,
      heartbeat=lambda: None,
    )
    batches = probe_training.shuffled(
      examples, batch_size=size, epochs=protocol.epochs, mesh=mesh
    )
    with jax.transfer_guard("disallow"):
      state = trainer.fit(examples.features.shape[1], batches)
    return trainer, state

  return run


class _Reference:
  """One classifier by NumPy in float64, step by step."""

  def __init__(self, kernel, optimizer, *, batch_norm, rate):
    self.kernel = np.asarray(kernel, np.float64)
    self.bias = np.zeros(self.kernel.shape[1])
    self.velocity = [np.zeros_like(self.kernel), np.zeros_like(self.bias)]
    self.mean = np.zeros(len(self.kernel))
    self.var = np.ones(len(self.kernel))
    self.optimizer, self.batch_norm, self.rate = optimizer, batch_norm, rate

  def step(self, x, labels, share):
    x = np.asarray(x, np.float64)
    if self.batch_norm:
      mean, var = x.mean(0), x.var(0)
      self.mean = 0.9 * self.mean + 0.1 * mean
      self.var = 0.9 * self.var + 0.1 * x.var(0, ddof=1)
      x = (x - mean) / np.sqrt(var + 1e-6)
    scores = x @ self.kernel + self.bias
    shares = np.exp(scores - scores.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    shares[np.arange(len(labels)), labels] -= 1
    shares /= len(labels)
    grads = [x.T @ shares, shares.sum(0)]
    if self.optimizer == "lars":
      norms = [np.linalg.norm(a) for a in (self.kernel, grads[0])]
      if all(norms):
        grads[0] *= 1e-3 * norms[0] / norms[1]
    for i, grad in enumerate(grads):
      self.velocity[i] = 0.9 * self.velocity[i] + grad
    self.kernel = self.kernel - self.rate * share * self.velocity[0]
    self.bias = self.bias - self.rate * share * self.velocity[1]


def _share(protocol, step, per_epoch):
  epoch = step / per_epoch
  if protocol.rate_per_epoch:
    epoch = step // per_epoch
  if epoch < protocol.warmup_epochs:
    return epoch / protocol.warmup_epochs
  span = protocol.epochs - protocol.warmup_epochs
  falling = (epoch - protocol.warmup_epochs) / span
  return (1 + math.cos(math.pi * falling)) / 2


@pytest.mark.parametrize(
  "name, keys",
  [
    ("dino", {"epochs": 5, "blocks": (1,), "learning_rates": (0.1,)}),
    ("dinov2", {"epochs": 5, "blocks": (), "learning_rates": (0.1,)}),
    ("mae", {"epochs": 6, "warmup_epochs": 2, "learning_rates": (160.0,)}),
  ],
)
def test_a_training_is_that_of_numpy(name, keys, fit):
  protocol = _protocol(name, train_batch_size=16, **keys)
  examples = _examples(40)
  key = jax.random.fold_in(jax.random.key(0), 0)
  kernel = 0.01 * np.asarray(jax.random.normal(key, (_WIDTH, _CLASSES)))
  reference = _Reference(
    kernel,
    protocol.optimizer,
    batch_norm=name == "mae",
    rate=keys["learning_rates"][0] * 16 / 256,
  )
  for epoch in range(protocol.epochs):
    order = np.random.default_rng((0, epoch)).permutation(40)
    for number in range(2):  # 8 examples of each epoch fill no batch.
      rows = order[16 * number : 16 * (number + 1)]
      share = _share(protocol, 2 * epoch + number, 2)
      reference.step(examples.features[rows], examples.labels[rows], share)
  trainer, state = fit(protocol, examples)
  params = state["classifiers"]["params"]
  assert np.abs(reference.kernel - kernel).max() > 2e-3
  np.testing.assert_allclose(
    params["kernel"][0], reference.kernel, rtol=1e-4, atol=1e-6
  )
  np.testing.assert_allclose(
    params["bias"][0, 0], reference.bias, rtol=1e-4, atol=1e-5
  )
  if name == "mae":
    for key in ("mean", "var"):
      np.testing.assert_allclose(
        state["running"][key][0], getattr(reference, key), rtol=1e-5
      )
  test = _examples(30, seed=1)
  x = test.features.astype(np.float64)
  if name == "mae":
    x = (x - reference.mean) / np.sqrt(reference.var + 1e-6)
  scores = x @ reference.kernel + reference.bias
  expected = np.mean(scores.argmax(1) == test.labels)
  assert trainer.accuracies(state, test) == [expected]


def test_lars_is_that_of_optax_while_the_rate_stays():
  rng = np.random.default_rng(0)
  params = {
    "kernel": jnp.asarray(rng.normal(size=(4, 3)), jnp.float32),
    "bias": jnp.zeros((1, 3)),
  }
  mask = {"kernel": True, "bias": False}
  theirs = optax.lars(0.5, weight_decay_mask=mask, trust_ratio_mask=mask)
  ours = optax.chain(probe_training.lars(), optax.scale(-0.5))
  first = second = params
  one, two = theirs.init(params), ours.init(params)
  for _ in range(4):
    grads = jax.tree.map(
      lambda p: jnp.asarray(rng.normal(size=p.shape), jnp.float32), params
    )
    updates, one = theirs.update(grads, one, first)
    first = optax.apply_updates(first, updates)
    updates, two = ours.update(grads, two, second)
    second = optax.apply_updates(second, updates)
  for name, value in first.items():
    np.testing.assert_allclose(second[name], value, rtol=1e-5, atol=1e-7)


def test_lars_leaves_a_gradient_alone_where_a_norm_is_zero():
  params = {"kernel": jnp.zeros((2, 3)), "bias": jnp.zeros((1, 3))}
  grads = {"kernel": jnp.ones((2, 3)), "bias": jnp.ones((1, 3))}
  tx = probe_training.lars()
  updates, _ = tx.update(grads, tx.init(params), params)
  np.testing.assert_array_equal(updates["kernel"], grads["kernel"])
  np.testing.assert_array_equal(updates["bias"], grads["bias"])


def test_the_rate_falls_to_zero_at_the_end():
  for name in ("dino", "dinov2", "mae"):
    protocol = _protocol(name)
    shares = [
      float(probe_training.decay(jnp.int32(step), protocol, 7))
      for step in range(0, 7 * protocol.epochs, 5)
    ]
    expected = [
      _share(protocol, step, 7) for step in range(0, 7 * protocol.epochs, 5)
    ]
    np.testing.assert_allclose(shares, expected, atol=1e-5)
    assert max(shares) <= 1 and shares[-1] < 0.03


_SWEEP = {
  "epochs": 8,
  "train_batch_size": 16,
  "learning_rates": (1e-3, 0.1, 2.0),
  "blocks": (1, 2),
}


@pytest.mark.parametrize("name", ["dinov2", "mae"])
def test_classifiers_trained_together_are_those_trained_alone(name, fit):
  # Three parts: the last layer but one, the last, the mean of its patches.
  averages = {"average_patches": (False, True)}
  extra = {"warmup_epochs": 1} if name == "mae" else {}
  protocol = _protocol(name, **_SWEEP, **averages, **extra)
  train = _examples(60, width=3 * _WIDTH, spread=1.5)
  test = _examples(200, width=3 * _WIDTH, spread=1.5, seed=1)
  trainer, state = fit(protocol, train, num_devices=4)
  together = trainer.accuracies(state, test)
  assert len(together) == 12 and len(set(together)) > 3
  for number, setting in enumerate(protocol.settings):
    alone = dataclasses.replace(
      protocol,
      learning_rates=(setting.learning_rate,),
      blocks=(setting.blocks,),
      average_patches=(setting.average_patches,),
    )
    first = 2 - setting.blocks
    columns = slice(
      first * _WIDTH, (3 if setting.average_patches else 2) * _WIDTH
    )
    parts = [
      Examples(one.features[:, columns], one.labels) for one in (train, test)
    ]
    one, fitted = fit(alone, parts[0])
    (accuracy,) = one.accuracies(fitted, parts[1])
    assert accuracy == pytest.approx(together[number], abs=1 / 200)
    kernel = state["classifiers"]["params"]["kernel"][number]
    np.testing.assert_allclose(
      kernel[columns],
      fitted["classifiers"]["params"]["kernel"][0],
      rtol=1e-3,
      atol=1e-4,
    )
    outside = np.delete(np.asarray(kernel), np.r_[columns], axis=0)
    np.testing.assert_array_equal(outside, 0)


@pytest.mark.parametrize("num_devices", [2, 4])
def test_devices_change_rounding_alone(num_devices, fit):
  protocol = _protocol("dinov2", **_SWEEP, average_patches=(False,))
  train, test = _examples(60, width=12), _examples(50, width=12, seed=1)
  trainer, state = fit(protocol, train)
  more, divided = fit(protocol, train, num_devices=num_devices)
  assert len(more.accuracies(divided, test)) == 6
  np.testing.assert_allclose(
    state["classifiers"]["params"]["kernel"],
    divided["classifiers"]["params"]["kernel"][:6],
    rtol=1e-3,
    atol=1e-4,
  )
  assert more.accuracies(divided, test) == pytest.approx(
    trainer.accuracies(state, test), abs=1 / 50
  )


def test_one_step_sums_nothing_over_devices(fit, make_mesh):
  protocol = _protocol("dinov2", **_SWEEP, average_patches=(False,))
  trainer, state = fit(protocol, _examples(60, width=12), num_devices=2)
  replicated = state["running"]["mean"].sharding
  batch = (jnp.ones((16, 12)), jnp.zeros(16, jnp.int32))
  settings = trainer._placed_settings(12)
  program = trainer._step.lower(
    state, settings, *jax.device_put(batch, replicated)
  ).compile()
  text = program.as_text()
  for word in ("all-reduce", "all-gather", "all-to-all", "reduce-scatter"):
    assert word not in text


@pytest.mark.parametrize("name", ["dino", "dinov2", "mae"])
def test_what_can_be_separated_is(name, fit):
  keys = {} if name == "mae" else {"blocks": (), "learning_rates": (1.0,)}
  protocol = _protocol(name, **keys)
  if name == "dinov2":
    protocol = dataclasses.replace(protocol, epochs=100)
  if name == "mae":  # A batch of 60 is no batch of 16384.
    protocol = dataclasses.replace(protocol, learning_rates=(40.0,))
  trainer, state = fit(protocol, _examples(60, spread=0.05))
  test = _examples(90, spread=0.05, seed=1)
  assert trainer.accuracies(state, test) == [1.0]


def test_chunks_of_the_test_split_change_nothing(fit, monkeypatch):
  protocol = _protocol("mae", learning_rates=(40.0,), train_batch_size=16)
  trainer, state = fit(protocol, _examples(60))
  test = _examples(50, seed=1)
  expected = trainer.accuracies(state, test)
  monkeypatch.setattr(probe_training, "_MAX_LOGITS", 7 * _CLASSES)
  assert trainer.accuracies(state, test) == expected


def test_a_training_repeats(fit):
  protocol = _protocol("dino", blocks=(), epochs=3, train_batch_size=16)
  kernels = [
    fit(protocol, _examples(40))[1]["classifiers"]["params"]["kernel"]
    for _ in range(2)
  ]
  np.testing.assert_array_equal(*kernels)


def test_what_diverged_is_never_the_best(fit):
  protocol = _protocol(
    "dinov2",
    blocks=(),
    epochs=5,
    train_batch_size=16,
    learning_rates=(1e38, 1.0),
  )
  trainer, state = fit(protocol, _examples(40))
  diverged, trained = trainer.accuracies(state, _examples(30, seed=1))
  assert diverged == 0 < trained
