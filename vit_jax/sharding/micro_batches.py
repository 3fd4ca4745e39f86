"""Splitting a global batch into parts that are processed one by one."""

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

from vit_jax.sharding.mesh import BATCH_AXES


def split(x: jax.Array, num_micro: int, mesh: Mesh | AbstractMesh) -> jax.Array:
  """Splits [b, ...] into [num_micro, b / num_micro, ...].

  Micro-batch i takes every num_micro-th example, so that no device sends data
  to another.
  """
  size = x.shape[0] // num_micro
  parts = jnp.swapaxes(x.reshape(size, num_micro, *x.shape[1:]), 0, 1)
  return _laid_out(parts, mesh, (None, BATCH_AXES))


def join(parts: jax.Array, mesh: Mesh | AbstractMesh) -> jax.Array:
  """Joins [num_micro, n, ...] to [num_micro n, ...]; undoes `split`."""
  num_micro, size, *rest = parts.shape
  x = jnp.swapaxes(parts, 0, 1).reshape(num_micro * size, *rest)
  return _laid_out(x, mesh, (BATCH_AXES,))


def _laid_out(x, mesh, axes):
  if mesh.empty:
    return x
  return jax.lax.with_sharding_constraint(
    x, NamedSharding(mesh, PartitionSpec(*axes))
  )
