"""Where the time goes."""

import pytest

from vit_jax.rundir import timing


class Time:
  def __init__(self, monkeypatch):
    self.now = 100.0
    monkeypatch.setattr(timing.time, "monotonic", lambda: self.now)


@pytest.fixture
def now(monkeypatch):
  return Time(monkeypatch)


def spend(clock, now, phase, seconds):
  with clock.phase(phase):
    now.now += seconds


def test_phases_add_up(now):
  clock = timing.Clock()
  spend(clock, now, "step", 2)
  spend(clock, now, "data", 1)
  spend(clock, now, "step", 3)
  now.now += 4
  assert clock.summary() == {
    "total_seconds": 10.0,
    "step_seconds": 5.0,
    "data_seconds": 1.0,
  }


def test_a_phase_counts_when_it_fails_too(now):
  clock = timing.Clock()
  with pytest.raises(KeyError), clock.phase("step"):
    now.now += 2
    raise KeyError
  assert clock.seconds == {"step": 2.0}


def test_throughput_leaves_out_evaluation_and_saving(now):
  clock = timing.Clock()
  throughput = timing.Throughput(
    clock,
    batch_size=32,
    flops_per_step=1e12,
    device_kind="TPU v5 lite",
    num_devices=2,
  )
  spend(clock, now, "data", 1)
  spend(clock, now, "step", 3)
  throughput.dispatched()
  spend(clock, now, "evaluate", 100)
  spend(clock, now, "save", 50)
  throughput.ended(waited=False)
  assert throughput.since_last(10) == {
    "perf/images_per_second": pytest.approx(10 * 32 / 4),
    "perf/data_wait_fraction": pytest.approx(1 / 4),
    "perf/model_flops_utilization": pytest.approx(10e12 / 4 / (2 * 197e12)),
  }
  throughput.dispatched()
  spend(clock, now, "step", 1)
  throughput.ended(waited=True)
  assert throughput.since_last(1)["perf/images_per_second"] == pytest.approx(32)


def test_a_step_that_ended_during_a_wait_for_data_claims_no_more(now):
  clock = timing.Clock()
  throughput = timing.Throughput(
    clock, batch_size=32, flops_per_step=1, device_kind="cpu", num_devices=1
  )

  def rate(*, waited):
    throughput.ended(waited=waited)
    return throughput.since_last(1)["perf/images_per_second"]

  def dispatch(data):
    spend(clock, now, "data", data)
    spend(clock, now, "step", 0.125)
    throughput.dispatched()

  dispatch(0.125)
  dispatch(0.125)  # Before the result of the first step is there.
  spend(clock, now, "step", 1.5)
  assert rate(waited=True) == 32 / 2
  dispatch(3.875)  # The second step ends meanwhile.
  assert rate(waited=False) == 32 / 4
  # A save follows, for which the third step is asked for at once.
  assert rate(waited=False) == 32 / (1.5 + 4)


def test_utilization_is_left_out_where_the_peak_is_not_known(now):
  throughput = timing.Throughput(
    timing.Clock(),
    batch_size=1,
    flops_per_step=1.0,
    device_kind="cpu",
    num_devices=1,
  )
  assert "perf/model_flops_utilization" not in throughput.since_last(1)
