"""Shardings of what the step takes."""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from vit_jax.config import schema
from vit_jax.sharding import mesh as mesh_lib
from vit_jax.training import state


def test_constants_follow_the_rules_of_the_family():
  section = schema.Mesh(data=2, tensor=2)
  constants = {"layer_0": {"kernel": jax.ShapeDtypeStruct((8, 8), jnp.float32)}}
  found = state.constant_shardings(
    constants,
    mesh_lib.create_mesh(section),
    section,
    [("layer_0/kernel", (None, "tensor"))],
  )
  assert found["layer_0"]["kernel"].spec == P(None, "tensor")
