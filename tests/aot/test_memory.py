"""A device's memory."""

import jax
import jax.numpy as jnp
import pytest

from tests import experiments
from vit_jax import trees
from vit_jax.aot import memory

# What XLA:TPU says before and after it gives memory out.
EARLY = (
  "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM, the"
  " total memory required for HLO temporaries (24.05G) exceeds available HBM"
  " (15.75G). HLO module: jit_train_step."
)
LATE = (
  "RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 812.50M of"
  " 512.00M hbm. Exceeded hbm capacity by 300.50M."
)


@pytest.mark.parametrize(
  ("message", "needed", "available"),
  [
    (EARLY, 24.05 * 2**30, 15.75 * 2**30),
    (LATE, 812.5 * 2**20, 512 * 2**20),
  ],
)
def test_the_compilers_figures_are_taken(message, needed, available):
  found = memory.overflow(jax.errors.JaxRuntimeError(message))
  assert found == memory.Overflow(round(needed), round(available))


def test_another_error_is_not_taken_for_too_little_memory():
  other = jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: too many open files")
  assert memory.overflow(other) is None


def test_the_total_counts_donated_arrays_once():
  def update(x, y):
    return x + jnp.sin(y).sum()

  x = jnp.zeros((1024, 64))
  compiled = jax.jit(update, donate_argnums=0).lower(x, x).compile()
  found = memory.compiled_bytes(compiled)
  assert found["arguments"] == 2 * x.nbytes
  assert found["outputs"] == found["aliased"] == x.nbytes
  assert found["total"] == 2 * x.nbytes + found["temporaries"]


def test_arguments_are_told_apart_and_divided_over_devices():
  parts = experiments.build(ema_decay=0.9, optimizer__mu_dtype="bfloat16")
  found = memory.argument_bytes(parts)
  params = trees.num_bytes(parts.abstract_state.params)
  assert found["parameters"] == found["averaged parameters"] == params
  # A first moment of half the size, a second, and counters of a few bytes.
  assert 0 <= found["optimizer"] - 1.5 * params < 64
  assert found["batch"] == 16 * (8 * 8 * 3 + 4) // jax.device_count()


def test_arguments_add_up_to_the_compiled_ones():
  parts = experiments.build(ema_decay=0.9)
  compiled = memory.compiled_bytes(parts.compile())
  assert sum(memory.argument_bytes(parts).values()) == pytest.approx(
    compiled["arguments"], rel=0.01
  )
