"""Placement of a model's arrays, for the few parts that depend on it.

Code that compiles a model for a mesh sets the mesh and the rules for names of
dimensions around it (`vit_jax.sharding.activations.on`); otherwise there is one
device.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import flax.linen as nn
import jax
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec


def platform() -> str:
  """Platform of the devices compiled for: 'cpu', 'gpu' or 'tpu'."""
  mesh = jax.sharding.get_abstract_mesh()
  if mesh.empty or mesh.abstract_device is None:
    return jax.default_backend()
  return mesh.abstract_device.platform


def device_kind() -> str:
  """Kind of the devices compiled for, such as 'TPU v5 lite'."""
  mesh = jax.sharding.get_abstract_mesh()
  if mesh.empty or mesh.abstract_device is None:
    return jax.devices()[0].device_kind
  return mesh.abstract_device.device_kind


@dataclasses.dataclass(frozen=True)
class Placement:
  """Placement of arrays over devices.

  Attributes:
    mesh: Mesh of the devices; None for one device.
    spec: Axes of the mesh over which each dimension is split.
  """

  mesh: AbstractMesh | None
  spec: PartitionSpec

  def part_of(self, shape: tuple[Any, ...]) -> tuple[Any, ...]:
    """Shape of the part of an array that a device holds."""
    if self.mesh is None:
      return shape
    return NamedSharding(self.mesh, self.spec).shard_shape(shape)

  def on_each_device(
    self, function: Callable, in_specs: Any = None, out_specs: Any = None
  ) -> Callable:
    """Calls `function` on each device with the part that it holds.

    For kernels that the compiler cannot split and whose results on one part do
    not depend on the others.

    Args:
      function: Function from arrays to arrays.
      in_specs: Placement of each argument, as for `jax.shard_map`; None for
        `spec`.
      out_specs: Placement of each result, as `in_specs`.
    """
    if self.mesh is None:
      return function
    return jax.shard_map(
      function,
      mesh=self.mesh,
      in_specs=self.spec if in_specs is None else in_specs,
      out_specs=self.spec if out_specs is None else out_specs,
      check_vma=False,
    )


def of(dims: Sequence[str | None], **sizes: Any) -> Placement:
  """Placement of arrays with these dimensions on the devices compiled for.

  The mesh is no longer set when a backward pass is traced, so the forward pass
  must hand its placement on.

  Args:
    dims: 'batch', 'heads', or None for a dimension that is not split.
    **sizes: Size of each named dimension: an integer or, in an export, which is
      for one device, a symbol. Dimensions that do not divide evenly are not
      split.
  """
  mesh = jax.sharding.get_abstract_mesh()
  if mesh.empty or mesh.size == 1:
    return Placement(None, PartitionSpec())
  dims = [
    name if name and sizes[name] % _num_parts(mesh, name) == 0 else None
    for name in dims
  ]
  return Placement(mesh, nn.logical_to_mesh_axes(dims))


def kernels_split_by_heads(num_heads: int) -> bool:
  """Tells whether devices that share the update keep heads of each kernel.

  They do if `fsdp` divides the heads, as in `vit_jax.sharding.rules`, unless
  `tensor` splits them.
  """
  mesh = jax.sharding.get_abstract_mesh()

  def splits(name: str) -> bool:
    parts = _num_parts(mesh, name)
    return parts > 1 and num_heads % parts == 0

  return not mesh.empty and splits("fsdp_heads") and not splits("heads")


def _num_parts(mesh: AbstractMesh, name: str) -> int:
  """Number of parts into which a dimension of this name is split."""
  (axes,) = nn.logical_to_mesh_axes((name,))
  axes = (axes,) if isinstance(axes, str) else axes or ()
  return math.prod(mesh.shape[axis] for axis in axes)
