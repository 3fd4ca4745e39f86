"""Timing of a few train steps before a run starts."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import jax
import jax.numpy as jnp

from vit_jax.data.sources import Source
from vit_jax.rundir.position import Position
from vit_jax.sharding import topologies
from vit_jax.training.data_stream import DataStream
from vit_jax.training.experiment import Experiment
from vit_jax.training.state import TrainState

# A measurement ends after this many seconds and steps.
_SECONDS, _STEPS = 3.0, 3
_PRODUCT_SIZE = 1024


def shortest_step(parts: Experiment) -> float:
  """Returns the seconds of a step with matrix products at the peak rate.

  The rate is that of the datasheet or, if unknown, of a large product.
  """
  device = parts.mesh.devices.flat[0]
  known = topologies.find_accelerator(device.device_kind)
  if known:
    rate = known.flops_per_device * parts.mesh.devices.size
  else:  # A CPU's devices are one CPU.
    rate = _product_rate(parts.config.model.dtype)
  return parts.flops_per_step / rate


def time_step(
  parts: Experiment, step: Callable[..., Any], source: Source | None
) -> float:
  """Returns the seconds of a step of the run, including its input.

  Args:
    parts: Parts of the experiment.
    step: Compiled train step, `(state, batch) -> (state, metrics)`.
    source: The training data; None for batches of zeros.

  Raises:
    UserError: The data cannot be read.
  """
  if source is None or parts.objective.stored is not None:
    return _time(step, parts.init_state(), _zeros(parts))
  with closing(DataStream(parts, source, 0, Position())) as batches:
    return _time(step, parts.init_state(), batches)


def _time(
  step: Callable[..., Any], state: TrainState, batches: Iterator[Any]
) -> float:
  start, done = math.nan, -1
  while not done >= _STEPS or time.perf_counter() - start < _SECONDS:
    state, metrics = step(state, next(batches))
    jax.block_until_ready((state, metrics))
    done += 1
    if not done:  # The first step is not counted.
      start = time.perf_counter()
  return (time.perf_counter() - start) / done


def _zeros(parts: Experiment) -> Iterator[dict[str, jax.Array]]:
  batch = {
    name: jnp.zeros(leaf.shape, leaf.dtype, device=leaf.sharding)
    for name, leaf in parts.abstract_batch().items()
  }
  while True:
    yield batch


def _product_rate(dtype: str) -> float:
  """Measures the FLOP/s of a large matrix product."""
  side = jnp.ones((_PRODUCT_SIZE, _PRODUCT_SIZE), dtype)
  multiply = jax.jit(jnp.matmul)
  seconds = math.inf
  for _ in range(4):
    start = time.perf_counter()
    multiply(side, side).block_until_ready()
    seconds = min(seconds, time.perf_counter() - start)
  return 2 * _PRODUCT_SIZE**3 / seconds
