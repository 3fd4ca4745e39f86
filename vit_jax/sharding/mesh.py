"""The device mesh: axes `data`, `fsdp` and `tensor`."""

import math
from collections.abc import Sequence

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from vit_jax.config import schema
from vit_jax.errors import UserError

AXES = ("data", "fsdp", "tensor")
BATCH_AXES = ("data", "fsdp")


def axis_sizes(config: schema.Mesh, num_devices: int) -> dict[str, int]:
  """Size of each axis, -1 filled in.

  Raises:
    UserError: if the axes do not multiply to `num_devices`.
  """
  sizes = {axis: getattr(config, axis) for axis in AXES}
  fixed = math.prod(size for size in sizes.values() if size != -1)
  shown = ", ".join(f"config.mesh.{a} = {s}" for a, s in sizes.items())
  if num_devices % fixed:
    raise UserError(
      f"{shown} asks for a multiple of {fixed} devices; there are"
      f" {num_devices}."
    )
  sizes = {a: num_devices // fixed if s == -1 else s for a, s in sizes.items()}
  if math.prod(sizes.values()) != num_devices:
    raise UserError(
      f"{shown} uses {fixed} of {num_devices} devices; set one of them to -1"
      " to use all."
    )
  return sizes


def create_mesh(
  config: schema.Mesh, devices: Sequence[jax.Device] | None = None
) -> Mesh:
  """A mesh over `devices` (default: all of all processes)."""
  devices = jax.devices() if devices is None else list(devices)
  sizes = axis_sizes(config, len(devices))
  return jax.make_mesh(
    tuple(sizes[axis] for axis in AXES),
    AXES,
    axis_types=(AxisType.Auto,) * len(AXES),
    devices=devices,
  )


def batch_sharding(mesh: Mesh) -> NamedSharding:
  """Examples split over data and fsdp, the other dimensions whole."""
  return NamedSharding(mesh, PartitionSpec(BATCH_AXES))


def replicated(mesh: Mesh) -> NamedSharding:
  """The whole array on every device."""
  return NamedSharding(mesh, PartitionSpec())


def batch_shards(mesh: Mesh) -> int:
  """Number of parts that a global batch is split into."""
  return int(np.prod([mesh.shape[axis] for axis in BATCH_AXES]))


def check_batch(config: schema.Train, num_shards: int) -> None:
  """Raises UserError unless every micro-batch divides over the devices."""
  unit = num_shards * config.accumulate_steps
  if config.batch_size % unit:
    below = config.batch_size // unit * unit
    sizes = [str(n) for n in (below, below + unit) if n > 0]
    parts = f"{num_shards} devices"
    if config.accumulate_steps > 1:
      parts += f" x {config.accumulate_steps} micro-batches"
    raise UserError(
      f"config.train.batch_size = {config.batch_size} does not divide over"
      f" {parts}; use {' or '.join(sizes)}."
    )
