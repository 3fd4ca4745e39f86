"""Gradients on devices that scatter any layout; TPUs' are in tests/aot."""

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from vit_jax.sharding import layouts


def test_other_devices_get_what_they_gave():
  mesh = jax.make_mesh((1, 1), ("data", "fsdp"))
  split = NamedSharding(mesh, PartitionSpec("fsdp"))
  grads = {"kernel": jnp.ones((128, 1000)), "bias": jnp.ones((1000,))}
  same = layouts.scatterable(grads, {"kernel": split, "bias": split})
  assert jax.tree.map(lambda x, y: x is y, same, grads) == {
    "kernel": True,
    "bias": True,
  }
