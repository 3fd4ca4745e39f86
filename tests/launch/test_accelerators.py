"""TPU slices by their names."""

import pytest

from launch import accelerators
from vit_jax.errors import UserError


@pytest.mark.parametrize(
  ("name", "accelerator", "hosts", "chips_per_host"),
  [
    ("v5e:1x1", "tpu-v5-lite-podslice", 1, 1),
    ("v5e:2x2", "tpu-v5-lite-podslice", 1, 4),
    ("v5e:16x16", "tpu-v5-lite-podslice", 64, 4),
    ("v4:2x2x4", "tpu-v4-podslice", 4, 4),
    ("v5p:4x4x8", "tpu-v5p-slice", 32, 4),
    ("v6e:4x4", "tpu-v6e-slice", 4, 4),
  ],
)
def test_a_slice_has_its_hosts(name, accelerator, hosts, chips_per_host):
  found = accelerators.parse(name)
  assert found.accelerator == accelerator
  assert found.topology == name.partition(":")[2]
  assert (found.num_hosts, found.chips_per_host) == (hosts, chips_per_host)


def test_eight_chips_may_be_on_one_host():
  assert accelerators.parse("v6e:2x4", 8).num_hosts == 1
  assert accelerators.parse("v6e:2x4").num_hosts == 2


@pytest.mark.parametrize(
  ("name", "said"),
  [
    ("v3:16x16", "generations on GKE are v4, v5e"),
    ("h100", "generations on GKE"),
    ("v5e:4x4x4", "v5e has 2 numbers, as in v5e:4x4"),
    ("v4:16x16", "v4 has 3 numbers"),
    ("v5e:0x4", "has 2 numbers"),
    ("v5e:", "has 2 numbers"),
    ("0*v5e:4x4", "written 2[*]v5e:4x4"),
    ("*v5e:4x4", "written 2[*]v5e:4x4"),
  ],
)
def test_what_is_no_slice_is_explained(name, said):
  with pytest.raises(UserError, match=said):
    accelerators.parse(name)


def test_several_slices_are_counted():
  assert accelerators.parse("12*v5e:16x16").count == 12
  one, two = accelerators.parse("v4:4x4x4"), accelerators.parse("2*v4:4x4x4")
  assert (one.count, two.count) == (1, 2)
  assert one.num_hosts == two.num_hosts


def test_hosts_are_whole():
  with pytest.raises(UserError, match="16 chips"):
    accelerators.parse("v5e:4x4", 5)
