"""Which dimensions of a kernel's arrays are split over a mesh."""

import jax
import pytest
from jax.sharding import PartitionSpec

from vit_jax.config import schema
from vit_jax.models.layers import placement
from vit_jax.sharding import activations
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
  found = activations.on(mesh, placement.of_heads)(
    ("batch", None, "heads"), batch_size=batch_size, num_heads=num_heads
  )
  assert found.spec == PartitionSpec(*spec)
