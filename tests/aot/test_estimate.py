"""From seconds to days."""

import pytest

from vit_jax.aot import estimate
from vit_jax.sharding.topologies import find_accelerator


def test_times_follow_from_seconds_batch_and_peak():
  found = estimate.estimate(
    compute_seconds=0.1,
    collective_seconds=0.025,
    overlapped_seconds=0.11,
    accelerator=find_accelerator("tpu v3"),
    num_devices=8,
    batch_size=100,
    model_flops=8 * 61.5e12 * 0.125 * 0.5,
    total_steps=24 * 3600 * 8 * 2,
  )
  assert found.compute_seconds == pytest.approx(0.1)
  assert found.step_seconds == pytest.approx(0.125)
  assert found.overlapped_seconds == 0.11
  assert found.images_per_second == pytest.approx(800)
  assert found.utilization == pytest.approx(0.5)
  assert found.run_days == pytest.approx(2)
  # Devices of a v3 are cores, as the paper counts.
  assert found.device_days == pytest.approx(16)
