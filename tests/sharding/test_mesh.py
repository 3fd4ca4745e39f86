"""The device mesh."""

import dataclasses
import math

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
  ("config", "num_devices", "num_slices", "fsdp"),
  [
    (schema.Mesh(), 1, 1, 1),
    (schema.Mesh(), 8, 1, 8),
    (schema.Mesh(), 256, 1, 8),
    (schema.Mesh(), 12, 1, 4),  # A power of 2, as widths are multiples of.
    (schema.Mesh(tensor=4), 32, 1, 8),
    (schema.Mesh(), 32, 4, 8),  # Only the devices of a slice.
    (schema.Mesh(data=8), 8, 1, 1),
    (schema.Mesh(data=2, tensor=-1), 8, 1, 1),
  ],
)
def test_up_to_eight_of_a_slice_share_an_update(
  config, num_devices, num_slices, fsdp
):
  sizes = mesh_lib.axis_sizes(config, num_devices, num_slices)
  assert sizes["fsdp"] == fsdp
  assert math.prod(sizes.values()) == num_devices


def test_a_tensor_axis_that_does_not_divide_is_refused_under_auto():
  with pytest.raises(UserError, match="asks for a multiple of 3 devices"):
    mesh_lib.axis_sizes(schema.Mesh(tensor=3), 8)


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


@dataclasses.dataclass(frozen=True)
class _SliceDevice:
  """What the arrangement of a mesh looks at in a device of several slices."""

  id: int
  slice_index: int
  platform: str
  device_kind: str = "some device"
  process_index: int = 0
  core_on_chip: int = 0

  @property
  def coords(self) -> tuple[int, int, int]:
    """In a slice of 2x2 chips, of which every second device is."""
    return self.id // 2 % 2, self.id // 4, 0


def _two_slices(platform: str) -> list[_SliceDevice]:
  """Eight devices in an order that mixes the slices."""
  return [_SliceDevice(i, i % 2, platform) for i in range(8)]


def _slices_along_data(mesh) -> list[set[int]]:
  return [{d.slice_index for d in part.flat} for part in mesh.devices]


@pytest.mark.parametrize("platform", ["tpu", "gpu"])
def test_several_slices_lie_along_data_alone(platform):
  config = schema.Mesh(fsdp=2, tensor=2)
  mesh = mesh_lib.create_mesh(config, _two_slices(platform))
  assert dict(mesh.shape) == {"data": 2, "fsdp": 2, "tensor": 2}
  assert mesh.axis_types == (AxisType.Auto,) * 3
  assert _slices_along_data(mesh) == [{0}, {1}]


@pytest.mark.parametrize("platform", ["tpu", "gpu"])
def test_an_update_is_shared_within_a_slice(platform):
  mesh = mesh_lib.create_mesh(schema.Mesh(), _two_slices(platform))
  assert dict(mesh.shape) == {"data": 2, "fsdp": 4, "tensor": 1}
  assert _slices_along_data(mesh) == [{0}, {1}]


def test_slices_of_tpus_do_not_share_parameters():
  with pytest.raises(UserError, match="comes to 1, which 2 slices do not"):
    mesh_lib.create_mesh(schema.Mesh(fsdp=8), _two_slices("tpu"))


def test_hosts_of_gpus_which_jax_calls_slices_may_share_parameters():
  mesh = mesh_lib.create_mesh(schema.Mesh(fsdp=8), _two_slices("gpu"))
  assert [d.slice_index for d in mesh.devices.flat] == [0] * 4 + [1] * 4
