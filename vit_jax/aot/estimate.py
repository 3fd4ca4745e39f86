"""Rates derived from the seconds of a step: images/s, MFU, days."""

import dataclasses

from vit_jax.sharding.topologies import Accelerator

_DAY = 24 * 3600


@dataclasses.dataclass(frozen=True)
class Estimate:
  """Estimated duration of a step and of a run.

  Attributes:
    compute_seconds: Seconds of arithmetic per step.
    collective_seconds: Seconds of exchanges per step.
    overlapped_seconds: Seconds of the step if exchanges overlap with arithmetic
      as in its schedule; all other figures add the two.
    images_per_second: Images per second of all devices together.
    utilization: Model FLOPs relative to the peak of all chips (MFU).
    run_days: Days of the whole run.
    device_days: `run_days` times all devices, as jax counts them: chips, but
      cores for v2 and v3.
  """

  compute_seconds: float
  collective_seconds: float
  overlapped_seconds: float
  images_per_second: float
  utilization: float
  run_days: float
  device_days: float

  @property
  def step_seconds(self) -> float:
    return self.compute_seconds + self.collective_seconds


def estimate(
  *,
  compute_seconds: float,
  collective_seconds: float,
  overlapped_seconds: float,
  accelerator: Accelerator,
  num_devices: int,
  batch_size: int,
  model_flops: float | int,
  total_steps: int,
) -> Estimate:
  """Derives times from one device's arithmetic and exchanges.

  `batch_size` and `model_flops` (3 x forward) are those of all devices.
  """
  step_seconds = compute_seconds + collective_seconds
  peak = num_devices * accelerator.flops_per_device
  run_days = total_steps * step_seconds / _DAY
  return Estimate(
    compute_seconds=compute_seconds,
    collective_seconds=collective_seconds,
    overlapped_seconds=overlapped_seconds,
    images_per_second=batch_size / step_seconds,
    utilization=model_flops / (peak * step_seconds),
    run_days=run_days,
    device_days=run_days * num_devices,
  )
