"""The table of accelerators."""

import pytest

from vit_jax.sharding import topologies


@pytest.mark.parametrize(
  ("kind", "flops"),
  [
    ("TPU v2", 22.5e12),  # jax counts cores, two to a chip.
    ("TPU v3", 61.5e12),
    ("TPU v4", 275e12),
    ("TPU v5 lite", 197e12),
    ("TPU v5", 459e12),
    ("TPU v6 lite", 918e12),
    ("NVIDIA H200", 989e12),
    ("NVIDIA H100 80GB HBM3", 989e12),
    ("NVIDIA A100-SXM4-40GB", 312e12),
    ("NVIDIA L4", 121e12),
  ],
)
def test_a_device_is_known_by_what_jax_calls_it(kind, flops):
  assert topologies.find_accelerator(kind).flops_per_device == flops


@pytest.mark.parametrize("kind", ["cpu", "NVIDIA L40S", "something new"])
def test_a_stranger_has_no_peak(kind):
  assert topologies.find_accelerator(kind) is None
