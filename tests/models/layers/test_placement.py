"""Which dimensions of a kernel's arrays are split over a mesh."""

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec

from vit_jax.config import schema
from vit_jax.models.layers import placement
from vit_jax.sharding import activations, rules
from vit_jax.sharding import mesh as mesh_lib


@pytest.mark.parametrize(
  "batch_size, num_heads, spec",
  [
    (4, 4, (("data", "fsdp"), None, "tensor")),
    (4, 3, (("data", "fsdp"), None, None)),
    (3, 4, (None, None, "tensor")),
  ],
)
def test_what_does_not_divide_is_whole_on_each_device(
  batch_size, num_heads, spec
):
  mesh = mesh_lib.create_mesh(schema.Mesh(data=2, tensor=2), jax.devices()[:4])
  found = activations.on(mesh, placement.of)(
    ("batch", None, "heads"), batch=batch_size, heads=num_heads
  )
  assert found.spec == PartitionSpec(*spec)


def test_a_mesh_needs_no_axis_of_dimensions_that_are_not_there():
  devices = np.array(jax.devices()[:4]).reshape(2, 2)
  mesh = jax.sharding.Mesh(devices, ("data", "fsdp"))
  found = activations.on(mesh, placement.of)(("batch", None, None), batch=4)
  assert found.spec == PartitionSpec(("data", "fsdp"), None, None)


@pytest.mark.parametrize(
  "fsdp, tensor, num_heads, is_split",
  [
    (1, 1, 4, False),
    (4, 1, 4, True),
    (4, 1, 6, False),
    (2, 2, 6, False),  # By `tensor`.
    (2, 2, 3, False),
  ],
)
def test_heads_are_split_by_fsdp_as_those_of_parameters_are(
  fsdp, tensor, num_heads, is_split
):
  config = schema.Mesh(data=-1, fsdp=fsdp, tensor=tensor)
  mesh = mesh_lib.create_mesh(config, jax.devices()[:4])
  found = activations.on(mesh, placement.kernels_split_by_heads)(num_heads)
  assert found == is_split
  # 1024 rows, so that `fsdp` would take them if heads did not come first.
  kernel = jax.ShapeDtypeStruct((1024, num_heads, 64), "float32")
  path = {"block": {"query": {"kernel": kernel}}}
  sharding = rules.param_shardings(path, mesh)["block"]["query"]["kernel"]
  assert (sharding.spec[1:2] == ("fsdp",)) == is_split


def test_outside_of_a_mesh_nothing_is_split():
  assert not placement.kernels_split_by_heads(4)
