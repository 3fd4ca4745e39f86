"""Multinomial logistic regression on all devices, by full-batch L-BFGS.

The objective is the mean cross-entropy plus l2 / 2 times the squared kernel;
the bias is not regularised. It is convex, so its solution does not depend on a
learning rate or the order of examples.

The solver is `optax.lbfgs`. This module divides the examples over the devices
and keeps the logits of only one block at a time: scikit-learn fits on one host,
and jaxopt's solver would need both as well.
"""

import dataclasses
import functools
import logging
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int

from vit_jax.evaluators.features import Examples
from vit_jax.sharding import arrays
from vit_jax.sharding import mesh as meshes

# Logits that a device holds at a time: 256 MB.
_MAX_LOGITS = 2**26
_SCALED_ROWS = 2**16
_SEGMENT_ITERATIONS = 20  # Between heartbeats.
_MAX_GRADIENT = 1e-5
_STD_OFFSET = 1e-5
_NO_EXAMPLE = -1

_logger = logging.getLogger(__name__)

Params = dict[str, Array]


@dataclasses.dataclass(frozen=True)
class Scale:
  """Shift and scale that give every feature mean 0 and deviation 1."""

  mean: Float[np.ndarray, " d"]
  std: Float[np.ndarray, " d"]

  @classmethod
  def of(cls, features: Float[np.ndarray, "n d"]) -> "Scale":
    mean = features.mean(axis=0, dtype=np.float64)
    # In parts, as a float64 copy of a large training set would be twice its
    # size.
    squares = sum(
      np.square(features[start : start + _SCALED_ROWS] - mean[None, :]).sum(0)
      for start in range(0, len(features), _SCALED_ROWS)
    )
    std = np.sqrt(squares / len(features)) + _STD_OFFSET
    return cls(mean.astype(np.float32), std.astype(np.float32))

  def __call__(
    self, features: Float[np.ndarray, "n d"]
  ) -> Float[np.ndarray, "n d"]:
    return (features - self.mean[None, :]) / self.std[None, :]


@dataclasses.dataclass(frozen=True)
class Placed:
  """Scaled examples on the devices, in blocks that are processed in turn.

  Attributes:
    features: Features; the rows of a block are divided over the devices.
    labels: Classes; -1 marks padding.
    num_examples: Number of examples, excluding padding.
  """

  features: Float[Array, "blocks rows d"]
  labels: Int[Array, "blocks rows"]
  num_examples: int


class Regression:
  """Fits and applies regressions with a given number of classes.

  Args:
    num_classes: Number of columns of the kernel.
    mesh: Devices; examples are divided over the axes `data` and `fsdp`.
    heartbeat: Called every few iterations.
  """

  def __init__(
    self, num_classes: int, *, mesh: Mesh, heartbeat: Callable[[], None]
  ):
    self._num_classes = num_classes
    self._heartbeat = heartbeat
    self._rows = NamedSharding(mesh, PartitionSpec(None, meshes.BATCH_AXES))
    self._shards = meshes.batch_shards(mesh)
    replicated = meshes.replicated(mesh)
    self._replicated = replicated
    self._solver = optax.lbfgs()
    self._init = jax.jit(self._solver.init, out_shardings=replicated)
    self._advance = jax.jit(self._advanced, out_shardings=replicated)
    self._count_right = jax.jit(_num_right, out_shardings=replicated)

  def place(self, examples: Examples, scale: Scale) -> Placed:
    """Places examples on the devices."""
    num_examples, width = examples.features.shape
    local = -(-num_examples // self._shards)
    local = min(local, max(_MAX_LOGITS // self._num_classes, 1))
    rows = local * self._shards
    blocks = -(-num_examples // rows)

    def shard(
      array: np.ndarray, fill: int, index: tuple[slice, ...]
    ) -> np.ndarray:
      start, stop, _ = index[1].indices(rows)
      result = np.full((blocks, stop - start, *array.shape[1:]), fill)
      result = result.astype(array.dtype)
      for block in range(blocks):
        part = array[block * rows + start : block * rows + stop]
        result[block, : len(part)] = (
          scale(part) if array is examples.features else part
        )
      return result

    def put(array: np.ndarray, fill: int) -> Array:
      return arrays.divided(
        (blocks, rows, *array.shape[1:]),
        self._rows,
        functools.partial(shard, array, fill),
      )

    return Placed(
      put(examples.features, 0),
      put(examples.labels.astype(np.int32), _NO_EXAMPLE),
      num_examples,
    )

  def fit(
    self,
    placed: Placed,
    *,
    l2: float,
    max_iterations: int,
    start: Params | None = None,
  ) -> Params:
    """Returns the solution: `kernel` [d, classes] and `bias` [1, classes].

    Args:
      placed: Examples to fit.
      l2: Regularisation strength.
      max_iterations: Maximum iterations; a warning is logged if they are not
        enough.
      start: Initial parameters, such as the solution for another l2.
    """
    params = self._zeros(placed) if start is None else start
    state = self._init(params)
    limits = jax.device_put(
      (np.float32(l2), np.int32(placed.num_examples)), self._replicated
    )
    gradient, iterations = np.inf, 0
    while gradient > _MAX_GRADIENT and iterations < max_iterations:
      segment = min(_SEGMENT_ITERATIONS, max_iterations - iterations)
      params, state, gradient, done = self._advance(
        params,
        state,
        placed.features,
        placed.labels,
        *limits,
        jax.device_put(np.int32(segment), self._replicated),
      )
      gradient, done = jax.device_get((gradient, done))
      iterations += int(done)
      self._heartbeat()
    if gradient > _MAX_GRADIENT:
      _logger.warning(
        "The regression with l2 = %g is at a gradient of %.1e after %d"
        " iterations; raise max_iterations.",
        l2,
        gradient,
        iterations,
      )
    return params

  def accuracy(self, params: Params, placed: Placed) -> float:
    """Returns the fraction of the examples whose class scores highest."""
    num_right = self._count_right(params, placed.features, placed.labels)
    return int(jax.device_get(num_right)) / placed.num_examples

  def _zeros(self, placed: Placed) -> Params:
    width = placed.features.shape[2]
    zeros = {
      "kernel": np.zeros((width, self._num_classes), np.float32),
      "bias": np.zeros((1, self._num_classes), np.float32),
    }
    return jax.device_put(zeros, self._replicated)

  def _advanced(
    self,
    params: Params,
    state: optax.OptState,
    features: Float[Array, "blocks rows d"],
    labels: Int[Array, "blocks rows"],
    l2: Float[Array, ""],
    num_examples: Int[Array, ""],
    num_iterations: Int[Array, ""],
  ) -> tuple[Params, optax.OptState, Float[Array, ""], Int[Array, ""]]:
    """Runs up to `num_iterations`; returns their number and max gradient."""

    def value(params: Params) -> Float[Array, ""]:
      total = _cross_entropy(params, features, labels) / num_examples
      return total + l2 / 2 * jnp.sum(params["kernel"] ** 2)

    value_and_grad = optax.value_and_grad_from_state(value)

    def is_unfinished(carry):
      _, _, gradient, done = carry
      return (gradient > _MAX_GRADIENT) & (done < num_iterations)

    def iterate(carry):
      params, state, _, done = carry
      loss, grads = value_and_grad(params, state=state)
      updates, state = self._solver.update(
        grads, state, params, value=loss, grad=grads, value_fn=value
      )
      params = optax.apply_updates(params, updates)
      grads = jax.tree.leaves(optax.tree.get(state, "grad"))
      gradient = jnp.stack([jnp.abs(g).max() for g in grads]).max()
      return params, state, gradient, done + 1

    start = (params, state, jnp.float32(jnp.inf), jnp.int32(0))
    return jax.lax.while_loop(is_unfinished, iterate, start)


def _scores(
  params: Params, features: Float[Array, "rows d"]
) -> Float[Array, "rows classes"]:
  scores = jnp.matmul(features, params["kernel"], precision="highest")
  return scores + params["bias"]


def _cross_entropy(
  params: Params,
  features: Float[Array, "blocks rows d"],
  labels: Int[Array, "blocks rows"],
) -> Float[Array, ""]:
  """Sums over the examples, keeping the logits of one block at a time."""

  def of_block(block):
    rows, truth = block
    losses = optax.softmax_cross_entropy_with_integer_labels(
      _scores(params, rows), jnp.maximum(truth, 0)
    )
    return jnp.where(truth >= 0, losses, 0.0).sum()

  return jax.lax.map(jax.checkpoint(of_block), (features, labels)).sum()


def _num_right(
  params: Params,
  features: Float[Array, "blocks rows d"],
  labels: Int[Array, "blocks rows"],
) -> Int[Array, ""]:
  def of_block(block):
    rows, truth = block
    return (_scores(params, rows).argmax(axis=1) == truth).sum()

  return jax.lax.map(of_block, (features, labels)).sum()
