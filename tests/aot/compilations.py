"""Compilations as they would have been found."""

from typing import Any

from tests import experiments
from vit_jax.aot import estimate, topology
from vit_jax.aot.hlo_cost import Cost
from vit_jax.aot.step_compilation import Compilation

GIB = 2**30


def fits(name: str, cost: Cost) -> Compilation:
  """A step of this cost that fits."""
  parts, where = experiments.build(), topology.parse(name)
  return Compilation(
    parts=parts,
    topology=where,
    hbm_limit=16 * GIB,
    hbm={
      "arguments": 3 * GIB,
      "outputs": 2 * GIB,
      "aliased": 2 * GIB,
      "temporaries": GIB,
      "total": 4 * GIB,
    },
    arguments={"parameters": GIB, "optimizer": GIB, "averaged parameters": 0},
    cost=cost,
    estimate=estimate.estimate(
      compute_seconds=cost.seconds or cost.cycles / where.accelerator.clock,
      collective_seconds=cost.collective_seconds(where.accelerator),
      overlapped_seconds=cost.overlapped_seconds,
      accelerator=where.accelerator,
      num_devices=where.num_devices,
      batch_size=parts.config.train.batch_size,
      model_flops=parts.flops_per_step,
      total_steps=parts.total_steps,
    ),
    compile_seconds=1.0,
    text="HloModule m",
  )


def too_large(name: str, **changes: Any) -> Compilation:
  """A step that needs twice the memory; changes are the config's."""
  return Compilation(
    parts=experiments.build(**changes),
    topology=topology.parse(name),
    hbm_limit=16 * GIB,
    hbm={
      "arguments": 3 * GIB,
      "outputs": None,
      "aliased": None,
      "temporaries": None,
      "total": 32 * GIB,
    },
    arguments={"parameters": 3 * GIB},
    cost=None,
    estimate=None,
    compile_seconds=1.0,
    text=None,
  )
