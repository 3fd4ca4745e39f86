"""The device mesh: axes `data`, `fsdp` and `tensor`."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental import mesh_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from vit_jax.config import schema
from vit_jax.errors import UserError

AXES = ("data", "fsdp", "tensor")
BATCH_AXES = ("data", "fsdp")


# An eighth of an update is small compared with the step, and an eighth of a
# matrix consists of whole tiles of a TPU's memory, in layouts that matrix
# products use directly.
_MOST_SHARING = 8


def axis_sizes(
  config: schema.Mesh, num_devices: int, num_slices: int = 1
) -> dict[str, int]:
  """Returns the size of each axis, with -1 and 'auto' filled in.

  Args:
    config: The section.
    num_devices: Number of all devices.
    num_slices: Number of slices, with equally many devices in each.

  Raises:
    UserError: The axes do not multiply to `num_devices`.
  """
  sizes = {axis: getattr(config, axis) for axis in AXES}
  if sizes["fsdp"] == "auto":
    sizes["fsdp"] = _num_sharing(sizes, num_devices // num_slices)
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


def _num_sharing(sizes: dict[str, Any], num_in_slice: int) -> int:
  """Returns the size for 'auto': a power of 2, as it must divide widths."""
  if sizes["data"] != -1 or num_in_slice % sizes["tensor"]:
    return 1
  return math.gcd(num_in_slice // sizes["tensor"], _MOST_SHARING)


def create_mesh(
  config: schema.Mesh, devices: Sequence[Any] | None = None
) -> Mesh:
  """Creates a mesh over jax's `devices` (default: all of all processes).

  Several slices, connected only by their hosts' network, lie along `data`, so
  that only the sum of the gradients crosses it.

  Raises:
    UserError: The axes do not multiply to the number of devices, or slices
      would be divided by an axis other than `data`.
  """
  devices = jax.devices() if devices is None else list(devices)
  num_slices = len({getattr(d, "slice_index", None) or 0 for d in devices})
  sizes = axis_sizes(config, len(devices), num_slices)
  grid = _arranged(sizes, devices, num_slices)
  return Mesh(grid, AXES, axis_types=(AxisType.Auto,) * len(AXES))


def _arranged(
  sizes: dict[str, int], devices: Sequence[Any], num_slices: int
) -> np.ndarray:
  """Returns the grid of devices that best suits the links between them."""
  shape = tuple(sizes[axis] for axis in AXES)
  if num_slices == 1:
    return mesh_utils.create_device_mesh(
      shape, devices, allow_split_physical_axes=True
    )
  if sizes["data"] % num_slices == 0:
    return mesh_utils.create_hybrid_device_mesh(
      (sizes["data"] // num_slices, *shape[1:]),
      (num_slices, 1, 1),
      devices,
      allow_split_physical_axes=True,
    )
  if devices[0].platform == "tpu":
    raise UserError(
      f"config.mesh.data comes to {sizes['data']}, which {num_slices} slices do"
      " not divide; slices are joined along data only, so fsdp x tensor must"
      f" divide the {len(devices) // num_slices} devices of a slice."
    )
  # To jax every GPU host is a slice; hosts may share parameters.
  ordered = sorted(devices, key=lambda d: (d.slice_index, d.id))
  return np.array(ordered, dtype=object).reshape(shape)


def batch_sharding(mesh: Mesh) -> NamedSharding:
  """Splits examples over data and fsdp; other dimensions are whole."""
  return NamedSharding(mesh, PartitionSpec(BATCH_AXES))


def replicated(mesh: Mesh) -> NamedSharding:
  """Places the whole array on every device."""
  return NamedSharding(mesh, PartitionSpec())


def gathered(sharding: NamedSharding) -> NamedSharding:
  """Returns the sharding without `fsdp`."""
  axes = (None if axis == "fsdp" else axis for axis in sharding.spec)
  return NamedSharding(sharding.mesh, PartitionSpec(*axes))


def batch_shards(mesh: Mesh) -> int:
  """Returns the number of parts that a global batch is split into."""
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
