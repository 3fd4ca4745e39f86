"""Compiling the exact step that `train` runs, for absent devices."""

import contextlib
import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from vit_jax import trees, versions
from vit_jax.aot import estimate as estimate_lib
from vit_jax.aot import gpus, hlo_cost, hlo_text, memory, quiet
from vit_jax.aot import topology as topology_lib
from vit_jax.aot.estimate import Estimate
from vit_jax.aot.gpus import Hosts
from vit_jax.aot.hlo_cost import Cost
from vit_jax.aot.topology import Topology
from vit_jax.config import schema
from vit_jax.data import facts
from vit_jax.errors import UserError
from vit_jax.models import attention_key
from vit_jax.sharding import mesh as mesh_lib
from vit_jax.training import experiment
from vit_jax.training.experiment import Experiment


@dataclasses.dataclass(frozen=True)
class Compilation:
  """Facts about a step before it runs.

  Attributes:
    parts: Parts of the experiment.
    topology: Topology it is compiled for.
    hbm_limit: Bytes of a device available to the compiler; on a GPU, all of its
      memory.
    hbm: Bytes of a device: arguments, outputs, aliased, temporaries, total;
      None if the compiler gives no figure, such as when the step does not fit.
    arguments: Bytes on a device by kind of argument.
    cost: Cost of the program; None if there is no program.
    estimate: Estimated times; None if there is no program.
    compile_seconds: Seconds that tracing and compiling took on this machine.
    text: Text of the compiled program; None if a TPU compiler produces none
      because the step does not fit. A GPU compiler always produces one.
  """

  parts: Experiment
  topology: Topology | Hosts
  hbm_limit: int
  hbm: Mapping[str, int | None]
  arguments: Mapping[str, int]
  cost: Cost | None
  estimate: Estimate | None
  compile_seconds: float
  text: str | None

  @property
  def fits(self) -> bool:
    return self.text is not None and self.hbm["total"] <= self.hbm_limit

  def record(self) -> dict[str, Any]:
    """Returns the figures that scripts read, as plain JSON."""
    cost, times = self.cost, self.estimate
    more = {}
    if isinstance(self.topology, Hosts) and cost:
      more = {"gpu_kernels": cost.by_kernel()}
    return {
      "topology": str(self.topology),
      "num_devices": self.topology.num_devices,
      "global_batch": self.parts.config.train.batch_size,
      "param_count": trees.num_elements(self.parts.abstract_state.params),
      "model_flops_per_step": self.parts.flops_per_step,
      "flops_per_device": cost and cost.flops,
      "hbm_bytes_per_device": {
        name: self.hbm[name]
        for name in ("arguments", "outputs", "temporaries", "total")
      },
      "hbm_limit_bytes": self.hbm_limit,
      "fits": self.fits,
      "estimated_cycles": cost and (round(cost.cycles) or None),
      "kernel_cycles": cost and round(cost.kernel_cycles),
      "uncosted_custom_calls": dict(cost.uncosted) if cost else None,
      "estimated_collective_seconds": times and times.collective_seconds,
      "estimated_step_seconds": times and times.step_seconds,
      "estimated_overlapped_step_seconds": times and times.overlapped_seconds,
      "collectives": cost and cost.by_kind(),
      **more,
      "compile_seconds": self.compile_seconds,
      "versions": versions.installed(),
    }


def build(
  config: schema.Config, devices: Sequence[jax.Device] | None = None
) -> Experiment:
  """Builds the experiment from its config alone, without its data.

  The mesh consists of `devices`; None for those of this process.

  Raises:
    UserError: The config omits a value that only the data determine, or does
      not fit the devices.
  """
  mesh = mesh_lib.create_mesh(config.mesh, devices)
  return experiment.build(config, facts.without_data(config), mesh)


def compile_step(
  config: schema.Config,
  topology: Topology | Hosts,
  options: Mapping[str, str | bool] | None = None,
) -> Compilation:
  """Compiles the train step for a topology. Too little memory is a result.

  Raises:
    UserError: As for `build`, or the compiler does not know the topology or
      cannot compile the step.
  """
  options, per_host = dict(options or {}), None
  if isinstance(topology, Hosts):
    options, per_host = options | gpus.OPTIONS, topology.gpus_per_host
  devices = topology_lib.devices(topology)
  parts = build(config, devices)
  if isinstance(topology, Hosts):
    gpus.check_cudnn(attention_key.value(parts.config.model))
  arguments = memory.argument_bytes(parts)
  start = time.monotonic()
  lowered = parts.lower()
  # A GPU compiler logs along the way that there is too little memory.
  is_quiet = isinstance(topology, Hosts)
  try:
    with quiet.stderr() if is_quiet else contextlib.nullcontext():
      compiled = lowered.compile(compiler_options=options)
  except jax.errors.JaxRuntimeError as error:
    overflow = memory.overflow(error)
    if overflow is None:
      raise UserError(
        f"The step cannot be compiled for {topology}:"
        f" {str(error).splitlines()[0]} Another mesh or batch may do."
      ) from None
    return Compilation(
      parts=parts,
      topology=topology,
      hbm_limit=overflow.available,
      hbm={
        "arguments": sum(arguments.values()),
        "outputs": None,
        "aliased": None,
        "temporaries": None,
        "total": overflow.needed,
      },
      arguments=arguments,
      cost=None,
      estimate=None,
      compile_seconds=time.monotonic() - start,
      text=None,
    )
  seconds = time.monotonic() - start
  text = compiled.as_text()
  cost = hlo_cost.cost(
    hlo_text.parse(text),
    accelerator=topology.accelerator,
    num_devices=topology.num_devices,
    devices_per_host=per_host,
  )
  return Compilation(
    parts=parts,
    topology=topology,
    hbm_limit=(
      topology.memory
      if isinstance(topology, Hosts)
      else memory.limit(devices[0])
    ),
    hbm=memory.compiled_bytes(compiled, at_peak=isinstance(topology, Hosts)),
    arguments=arguments,
    cost=cost,
    estimate=estimate_lib.estimate(
      compute_seconds=cost.seconds,
      collective_seconds=cost.collective_seconds(topology.accelerator),
      overlapped_seconds=cost.overlapped_seconds,
      accelerator=topology.accelerator,
      num_devices=topology.num_devices,
      batch_size=config.train.batch_size,
      model_flops=parts.flops_per_step,
      total_steps=parts.total_steps,
    ),
    compile_seconds=seconds,
    text=text,
  )
