"""Training of linear classifiers on frozen features by gradient descent.

Any number of classifiers, which differ in their learning rate and the features
they see, are trained together on the same batches by one jitted step. They are
divided over the devices, and every device sees whole batches. Nothing is summed
over devices, so the exact results depend neither on how classifiers are divided
nor on the number of processes. A single classifier is trained identically on
all devices.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int

from vit_jax.evaluators.features import Examples
from vit_jax.evaluators.probe_protocols import Protocol
from vit_jax.sharding import arrays
from vit_jax.sharding import mesh as meshes

# Logits that a device holds at a time during testing: 256 MB.
_MAX_LOGITS = 2**26
_HEARTBEAT_STEPS = 20
_NO_EXAMPLE = -1
_KERNEL_STDDEV = 0.01
_MOMENTUM = 0.9
_TRUST_COEFFICIENT = 1e-3
_BATCH_NORM_EPSILON = 1e-6
_BATCH_NORM_MOMENTUM = 0.1  # Weight of a batch in the running statistics.

Params = dict[str, Array]
Batches = Iterable[tuple[Array, Array]]
State = dict[str, Any]


def sgd() -> optax.GradientTransformation:
  """Builds momentum as in PyTorch's SGD; the rate is applied afterwards."""
  return optax.trace(_MOMENTUM)


def lars() -> optax.GradientTransformation:
  """Builds LARS as in MAE's linear probe; the rate is applied afterwards.

  A kernel's gradient is scaled by 0.001 times the kernel's norm over the
  gradient's, or by 1 if either is 0; the bias's gradient is not scaled.
  Momentum follows. In `optax.lars` the rate is applied before the momentum, so
  past gradients keep past rates; here, as in the released code, the current
  rate applies to all.
  """
  scaled = optax.scale_by_trust_ratio(trust_coefficient=_TRUST_COEFFICIENT)
  return optax.chain(
    optax.masked(scaled, {"kernel": True, "bias": False}), sgd()
  )


def decay(
  step: Int[Array, ""], protocol: Protocol, steps_per_epoch: int
) -> Float[Array, ""]:
  """Returns the factor of the learning rate at a step, counted from 0.

  It rises linearly from 0, then follows half a cosine down to 0 at the end of
  the last epoch.
  """
  epoch = step / steps_per_epoch
  if protocol.rate_per_epoch:
    epoch = jnp.floor_divide(step, steps_per_epoch).astype(jnp.float32)
  warmup = protocol.warmup_epochs
  falling = (epoch - warmup) / (protocol.epochs - warmup)
  cosine = 0.5 * (1 + jnp.cos(jnp.pi * falling))
  return jnp.where(epoch < warmup, epoch / max(warmup, 1), cosine)


def shuffled(
  examples: Examples, *, batch_size: int, epochs: int, mesh: Mesh
) -> Iterator[tuple[Array, Array]]:
  """Yields batches, whole on every device, in a new order each epoch.

  The orders depend only on the number of examples. Examples that do not fill a
  batch are left out of their epoch.
  """
  replicated = meshes.replicated(mesh)
  num_examples = len(examples.labels)
  labels = examples.labels.astype(np.int32)
  for epoch in range(epochs):
    order = np.random.default_rng((0, epoch)).permutation(num_examples)
    for start in range(0, num_examples - batch_size + 1, batch_size):
      rows = order[start : start + batch_size]
      yield tuple(
        arrays.divided(part.shape, replicated, part.__getitem__)
        for part in (examples.features[rows], labels[rows])
      )


class Trainer:
  """Trains and applies the classifiers of a protocol.

  Args:
    protocol: Protocol of the training.
    num_classes: Columns of their kernels.
    batch_size: Examples per step, by which the rates are scaled.
    steps_per_epoch: Steps per epoch.
    mesh: Devices; classifiers are divided over the axes `data` and `fsdp`.
    heartbeat: Called every few steps.
  """

  def __init__(
    self,
    protocol: Protocol,
    *,
    num_classes: int,
    batch_size: int,
    steps_per_epoch: int,
    mesh: Mesh,
    heartbeat: Callable[[], None],
  ):
    settings = protocol.settings
    self._protocol = protocol
    self._num_classes = num_classes
    self._factor = protocol.rate_factor(batch_size)
    self._num_settings = len(settings)
    self._shards = 1 if len(settings) == 1 else meshes.batch_shards(mesh)
    # Copies of the last one pad to a multiple of the devices.
    missing = -len(settings) % self._shards
    self._settings = (*settings, *settings[-1:] * missing)
    self._heartbeat = heartbeat
    self._replicated = meshes.replicated(mesh)
    axes = () if self._shards == 1 else (meshes.BATCH_AXES,)
    self._divided = NamedSharding(mesh, PartitionSpec(*axes))
    self._tx = lars() if protocol.optimizer == "lars" else sgd()
    placed = {
      "classifiers": self._divided,
      "running": self._replicated,
      "step": self._replicated,
    }
    self._init = jax.jit(self._initial, out_shardings=placed)
    self._step = jax.jit(
      functools.partial(self._stepped, steps_per_epoch=steps_per_epoch),
      out_shardings=(placed, self._divided),
      donate_argnums=0,
    )
    self._count = jax.jit(self._num_right, out_shardings=self._replicated)

  def fit(self, width: int, batches: Batches) -> State:
    """Trains all classifiers.

    Args:
      width: Length of a feature vector.
      batches: Features [b, width] and labels [b] of each step, complete on
        every device.
    """
    settings = self._placed_settings(width)
    state, before = self._init(settings), None
    for number, (features, labels) in enumerate(batches, 1):
      state, loss = self._step(state, settings, features, labels)
      # The host stays one step ahead, so that few batches wait on the devices.
      jax.block_until_ready(before)
      before = loss
      if number % _HEARTBEAT_STEPS == 0:
        self._heartbeat()
    return state

  def accuracies(self, state: State, test: Examples) -> list[float]:
    """Returns the accuracy of each classifier."""
    num_examples = len(test.labels)
    local = len(self._settings) // self._shards * self._num_classes
    rows = min(num_examples, max(_MAX_LOGITS // local, 1))
    num_right = np.zeros(len(self._settings), np.int64)
    for start in range(0, num_examples, rows):
      part = test.rows(np.arange(start, min(start + rows, num_examples)))
      # A single shape, so that one program serves all.
      missing = rows - len(part.labels)
      features = np.pad(part.features, ((0, missing), (0, 0)))
      labels = np.pad(
        part.labels.astype(np.int32),
        (0, missing),
        constant_values=_NO_EXAMPLE,
      )
      features, labels = (
        arrays.divided(x.shape, self._replicated, x.__getitem__)
        for x in (features, labels)
      )
      num_right += jax.device_get(self._count(state, features, labels))
      self._heartbeat()
    return [int(n) / num_examples for n in num_right[: self._num_settings]]

  def _parts(self, width: int) -> tuple[tuple[str, int], ...]:
    """Returns (kind, layers from the last) of each equal part of a feature."""
    if not self._protocol.blocks:
      return (("representation", 0),)
    layers = range(self._protocol.max_blocks - 1, -1, -1)
    parts = tuple(("layer", layer) for layer in layers)
    parts += (("patches", 0),) if self._protocol.has_patches else ()
    assert width % len(parts) == 0
    return parts

  def _placed_settings(self, width: int) -> dict[str, Array]:
    """Returns `rate` [c] and `sees` [c, width], 1 where a classifier sees."""
    parts = self._parts(width)
    sees = np.zeros((len(self._settings), len(parts)), np.float32)
    for row, setting in zip(sees, self._settings, strict=True):
      for column, (kind, layer) in enumerate(parts):
        seen = {
          "representation": True,
          "layer": layer < setting.blocks,
          "patches": setting.average_patches,
        }
        row[column] = seen[kind]
    rates = [one.learning_rate * self._factor for one in self._settings]
    host = {
      "rate": np.asarray(rates, np.float32),
      "sees": np.repeat(sees, width // len(parts), axis=1),
    }
    return {
      name: arrays.divided(x.shape, self._divided, x.__getitem__)
      for name, x in host.items()
    }

  def _initial(self, settings: Mapping[str, Array]) -> State:
    """Initialises classifiers equally in what they see, alone or together."""
    count, width = settings["sees"].shape
    parts = self._parts(width)
    shape = (width // len(parts), self._num_classes)
    keys = [
      jax.random.fold_in(jax.random.key(0), 2 * layer + (kind == "patches"))
      for kind, layer in parts
    ]
    kernel = jnp.concatenate([jax.random.normal(key, shape) for key in keys])
    params = {
      "kernel": _KERNEL_STDDEV * kernel[None] * settings["sees"][:, :, None],
      "bias": jnp.zeros((count, 1, self._num_classes)),
    }
    return {
      "classifiers": {"params": params, "opt": jax.vmap(self._tx.init)(params)},
      "running": {"mean": jnp.zeros((1, width)), "var": jnp.ones((1, width))},
      "step": jnp.int32(0),
    }

  def _stepped(
    self,
    state: State,
    settings: Mapping[str, Array],
    features: Float[Array, "b d"],
    labels: Int[Array, " b"],
    *,
    steps_per_epoch: int,
  ) -> tuple[State, Float[Array, " c"]]:
    """Performs one step of all classifiers; also returns prior losses."""
    running = state["running"]
    if self._protocol.batch_norm:
      features, running = batch_norm(features, running)
    share = decay(state["step"], self._protocol, steps_per_epoch)

    def one(
      params: Params, opt: optax.OptState, rate: Array, sees: Array
    ) -> tuple[Params, optax.OptState, Array]:
      def loss(params: Params) -> Float[Array, ""]:
        return optax.softmax_cross_entropy_with_integer_labels(
          _scores(params["kernel"], params["bias"], features), labels
        ).mean()

      value, grads = jax.value_and_grad(loss)(params)
      # Weights of unseen features start at 0 and stay 0.
      grads["kernel"] *= sees[:, None]
      updates, opt = self._tx.update(grads, opt, params)
      updates = jax.tree.map(lambda update: -rate * share * update, updates)
      return optax.apply_updates(params, updates), opt, value

    classifiers = state["classifiers"]
    params, opt, losses = jax.vmap(one)(
      classifiers["params"],
      classifiers["opt"],
      settings["rate"],
      settings["sees"],
    )
    state = {
      "classifiers": {"params": params, "opt": opt},
      "running": running,
      "step": state["step"] + 1,
    }
    return state, losses

  def _num_right(
    self,
    state: State,
    features: Float[Array, "b d"],
    labels: Int[Array, " b"],
  ) -> Int[Array, " c"]:
    if self._protocol.batch_norm:
      running = state["running"]
      features = _scaled(features, running["mean"], running["var"])

    def one(params: Params) -> Int[Array, ""]:
      scores = _scores(params["kernel"], params["bias"], features)
      # A diverged classifier gets nothing right, not even the first class.
      is_right = (scores.argmax(axis=1) == labels) & jnp.isfinite(scores).all(
        axis=1
      )
      return is_right.sum()

    return jax.vmap(one)(state["classifiers"]["params"])


def batch_norm(
  features: Float[Array, "b d"], running: Mapping[str, Float[Array, "1 d"]]
) -> tuple[Float[Array, "b d"], dict[str, Float[Array, "1 d"]]]:
  """Normalises features to mean 0 and variance 1; updates the statistics.

  Like PyTorch's BatchNorm1d without scale and shift: a batch is normalised by
  its biased variance, and the unbiased variance enters the running statistics.
  """
  mean = features.mean(axis=0, keepdims=True)
  var = jnp.square(features - mean).mean(axis=0, keepdims=True)
  size = len(features)
  found = {"mean": mean, "var": var * (size / max(size - 1, 1))}
  running = {
    name: (1 - _BATCH_NORM_MOMENTUM) * running[name]
    + _BATCH_NORM_MOMENTUM * found[name]
    for name in found
  }
  return _scaled(features, mean, var), running


def _scaled(
  features: Float[Array, "b d"],
  mean: Float[Array, "1 d"],
  var: Float[Array, "1 d"],
) -> Float[Array, "b d"]:
  return (features - mean) * jax.lax.rsqrt(var + _BATCH_NORM_EPSILON)


def _scores(
  kernel: Float[Array, "d classes"],
  bias: Float[Array, "1 classes"],
  features: Float[Array, "b d"],
) -> Float[Array, "b classes"]:
  return jnp.matmul(features, kernel, precision="highest") + bias
