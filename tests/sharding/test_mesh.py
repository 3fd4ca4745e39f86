"""The device mesh."""

import jax
import numpy as np
import pytest
from jax.sharding import AxisType

from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.sharding import mesh as mesh_lib


def test_minus_one_takes_the_devices_that_are_left():
  sizes = mesh_lib.axis_sizes(schema.Mesh(data=-1, fsdp=4, tensor=2), 32)
  assert sizes == {"data": 4, "fsdp": 4, "tensor": 2}


@pytest.mark.parametrize(
  ("config", "num_devices", "sentence"),
  [
    (schema.Mesh(data=-1, fsdp=3), 8, "asks for a multiple of 3 devices"),
    (schema.Mesh(data=2, fsdp=2), 8, "uses 4 of 8 devices"),
    (schema.Mesh(data=16), 8, "asks for a multiple of 16 devices"),
  ],
)
def test_axes_that_do_not_multiply_to_the_devices_are_refused(
  config, num_devices, sentence
):
  with pytest.raises(UserError, match=sentence):
    mesh_lib.axis_sizes(config, num_devices)


def test_axes_are_auto_so_that_xla_places_activations():
  mesh = mesh_lib.create_mesh(schema.Mesh(data=2, fsdp=2))
  assert mesh.axis_types == (AxisType.Auto,) * 3
  assert mesh.axis_names == ("data", "fsdp", "tensor")


def test_a_batch_is_split_over_data_and_fsdp_but_not_tensor():
  mesh = mesh_lib.create_mesh(schema.Mesh(data=1, fsdp=2, tensor=2))
  assert mesh_lib.batch_shards(mesh) == 2
  batch = jax.device_put(np.arange(8), mesh_lib.batch_sharding(mesh))
  rows = {tuple(shard.data.tolist()) for shard in batch.addressable_shards}
  assert rows == {(0, 1, 2, 3), (4, 5, 6, 7)}


def test_a_batch_that_does_not_divide_is_told_which_sizes_do():
  train = schema.Train(batch_size=4100)
  with pytest.raises(UserError, match="16 devices; use 4096 or 4112"):
    mesh_lib.check_batch(train, 16)
  with pytest.raises(UserError, match="2 micro-batches; use 4096 or 4112"):
    mesh_lib.check_batch(schema.Train(batch_size=4100, accumulate_steps=2), 8)
  with pytest.raises(UserError, match="use 16"):
    mesh_lib.check_batch(schema.Train(batch_size=8), 16)
  mesh_lib.check_batch(schema.Train(batch_size=4096), 16)
