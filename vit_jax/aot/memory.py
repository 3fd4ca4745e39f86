"""A device's memory in a compiled step, by purpose."""

import dataclasses
import re

import jax
import jax.numpy as jnp
from jax.sharding import SingleDeviceSharding

from vit_jax.sharding import rules
from vit_jax.training.experiment import Experiment

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE = r"([\d.]+)([KMGT]?)"
# Reported before and after memory allocation, respectively.
_OVERFLOWS = (
  re.compile(rf"\({_SIZE}\) exceeds available HBM \({_SIZE}\)"),
  re.compile(rf"Used {_SIZE} of {_SIZE} hbm"),
)


@dataclasses.dataclass(frozen=True)
class Overflow:
  """A program that does not fit: needed and available bytes."""

  needed: int
  available: int


def overflow(error: Exception) -> Overflow | None:
  """Reads the memory figures in a compiler error; None for other errors."""
  for pattern in _OVERFLOWS:
    found = pattern.search(str(error))
    if found:
      needed, available = (
        round(float(found[i]) * _UNITS[found[i + 1]]) for i in (1, 3)
      )
      return Overflow(needed, available)
  return None


def limit(device: jax.Device) -> int:
  """Returns the bytes available to the compiler on a TPU.

  This is less than the chip's memory, and found by compiling a program that
  takes a terabyte.
  """
  huge = jax.ShapeDtypeStruct(
    (2**40,), jnp.uint8, sharding=SingleDeviceSharding(device)
  )
  try:
    jax.jit(lambda x: x + 1).lower(huge).compile()
  except jax.errors.JaxRuntimeError as error:
    found = overflow(error)
    if found is None:
      raise
    return found.available
  raise ValueError(f"{device.device_kind} has no limit of its memory.")


def compiled_bytes(
  compiled: jax.stages.Compiled, *, at_peak: bool = False
) -> dict[str, int]:
  """Returns arguments, outputs, aliased, temporaries and total per device.

  Args:
    compiled: The program.
    at_peak: True to use the compiler's peak memory as the total.
  """
  stats = compiled.memory_analysis()
  sizes = {
    "arguments": stats.argument_size_in_bytes,
    "outputs": stats.output_size_in_bytes,
    "aliased": stats.alias_size_in_bytes,
    "temporaries": stats.temp_size_in_bytes,
  }
  sizes["total"] = (
    sizes["arguments"]
    + sizes["outputs"]
    - sizes["aliased"]
    + sizes["temporaries"]
  )
  if at_peak:
    sizes["total"] = stats.peak_memory_in_bytes
  return sizes


def argument_bytes(parts: Experiment) -> dict[str, int]:
  """Returns the bytes of the step's arguments on a device, unpadded."""
  state, shardings = parts.abstract_state, parts.shardings
  batch = parts.abstract_batch()
  constants = parts.abstract_constants
  named = {
    "constants": (
      constants,
      jax.tree.map(lambda leaf: leaf.sharding, constants),
    ),
    "parameters": (state.params, shardings.params),
    "optimizer": (state.opt_state, shardings.opt_state),
    "averaged parameters": (state.ema_params, shardings.ema_params),
    "other state": (
      (state.step, state.objective_state, state.spikes),
      (shardings.step, shardings.objective_state, shardings.spikes),
    ),
    "batch": (batch, {name: leaf.sharding for name, leaf in batch.items()}),
  }
  return {
    name: rules.shard_bytes(tree, placed)
    for name, (tree, placed) in named.items()
    if name != "constants" or jax.tree.leaves(tree)
  }
