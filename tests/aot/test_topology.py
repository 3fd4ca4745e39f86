"""TPUs by name."""

import pytest

from vit_jax.aot import memory, topology
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.sharding import mesh as mesh_lib


@pytest.mark.parametrize(
  ("name", "chips", "devices"),
  [
    ("v2:4x4", 16, 32),  # jax counts cores.
    ("v3:16x16", 256, 512),
    ("v4:4x4x4", 64, 64),
    ("v5e:1x1", 1, 1),
    ("v5e:16x16", 256, 256),
    ("v5p:2x2x1", 4, 4),
    ("v6e:2x4", 8, 8),
    ("2*v5e:16x16", 512, 512),
  ],
)
def test_a_name_says_how_many_devices_there_are(name, chips, devices):
  found = topology.parse(name)
  assert (found.num_chips, found.num_devices) == (chips, devices)
  assert str(found) == name


def test_slices_may_be_counted_by_either_flag():
  assert topology.parse("v5e:4x4", 3) == topology.parse("3*v5e:4x4")
  assert topology.parse("3*v5e:4x4", 3) == topology.parse("3*v5e:4x4")
  with pytest.raises(UserError, match="names 2 slices but --num_slices=3"):
    topology.parse("2*v5e:4x4", 3)


@pytest.mark.parametrize(
  ("name", "sentence"),
  [
    ("16x16", "is not a topology; write GENERATION:CHIPSxCHIPS"),
    ("v5e", "is not a topology; write GENERATION:CHIPSxCHIPS"),
    ("v5e:16*16", "is not a topology"),
    ("0*v5e:4x4", "at least one slice"),
    ("v9:4x4", "TPUs v2, v3, v4, v5e, v5p, v6e and GPUs"),
    ("v4:4x4", "a grid of 3 dimensions, such as v4:4x4x4"),
    ("v5e:2x2x2", "a grid of 2 dimensions"),
    ("v5e:0x4", "a grid of 2 dimensions"),
    ("v5e:3x5", "whole hosts of 2x2 chips"),
    ("v4:3x2x2", "whole hosts of 2x2x1 chips"),
    ("v5e:16x32", "at most 16 chips along a side"),
  ],
)
def test_what_is_no_tpu_is_refused_by_a_sentence(name, sentence):
  with pytest.raises(UserError) as error:
    topology.parse(name)
  assert sentence in str(error.value)


def test_without_the_compiler_it_is_said_how_to_install_it(monkeypatch):
  monkeypatch.setattr(topology.importlib.util, "find_spec", lambda name: None)
  with pytest.raises(UserError, match="pip install 'libtpu==0.0.51'"):
    topology.prepare_environment()


GRIDS = {2: ((16, 16), (2, 2), (1, 1)), 3: ((4, 4, 4), (2, 2, 1), (1, 1, 1))}


@pytest.mark.parametrize("num_slices", [1, 2])
@pytest.mark.parametrize("size", [0, 1, 2])
@pytest.mark.parametrize("generation", topology.GENERATIONS)
def test_libtpu_has_the_devices(libtpu, generation, size, num_slices):
  rank, _ = topology.GENERATIONS[generation]
  wanted = topology.Topology(generation, GRIDS[rank][size], num_slices)
  devices = topology.devices(wanted)
  assert len(devices) == wanted.num_devices
  if num_slices > 1:
    assert {d.slice_index for d in devices} == {0, 1}


@pytest.mark.parametrize(
  ("name", "fsdp", "tensor"),
  [
    ("v3:16x16", 8, 1),
    ("v4:4x4x4", 2, 1),
    ("v4:4x4x4", 16, 2),
    ("v5e:16x16", 256, 1),
    ("v6e:16x16", 32, 2),
    ("2*v5p:2x2x4", 8, 2),
    ("4*v5e:4x4", 4, 4),
  ],
)
def test_a_torus_takes_every_mesh_that_divides_it(libtpu, name, fsdp, tensor):
  wanted = topology.parse(name)
  config = schema.Mesh(fsdp=fsdp, tensor=tensor)
  mesh = mesh_lib.create_mesh(config, topology.devices(wanted))
  assert mesh.shape["data"] * fsdp * tensor == wanted.num_devices
  assert len({d.id for d in mesh.devices.flat}) == wanted.num_devices


@pytest.mark.parametrize("generation", topology.GENERATIONS)
def test_the_compiler_has_most_of_a_devices_memory(libtpu, generation):
  grid = (2, 2, 1)[: topology.GENERATIONS[generation][0]]
  wanted = topology.Topology(generation, grid)
  limit = memory.limit(topology.devices(wanted)[0])
  chip = wanted.accelerator.hbm_bytes / wanted.accelerator.devices_per_chip
  # Datasheets count 10^9 bytes where chips have 2^30.
  assert 0.9 * chip < limit <= chip * 2**30 / 1e9 * 1.01
