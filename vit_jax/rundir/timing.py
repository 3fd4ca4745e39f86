"""Time accounting of a run."""

import collections
import contextlib
import time
from collections.abc import Iterator

from vit_jax.sharding import topologies


class Clock:
  """Adds up seconds by phase: 'start', 'compile', 'data', 'step', ...

  Attributes:
    seconds: Seconds of each completed phase.
    current: Current phase, or None.
  """

  def __init__(self) -> None:
    self._begin = time.monotonic()
    self.seconds: dict[str, float] = {}
    self.current: str | None = None

  @contextlib.contextmanager
  def phase(self, name: str) -> Iterator[None]:
    start, around = time.monotonic(), self.current
    self.current = name
    try:
      yield
    finally:
      self.current = around
      elapsed = time.monotonic() - start
      self.seconds[name] = self.seconds.get(name, 0.0) + elapsed

  def total(self) -> float:
    """Returns the seconds since the clock was created."""
    return time.monotonic() - self._begin

  def summary(self) -> dict[str, float]:
    """Returns {'total_seconds': ..., 'compile_seconds': ...}."""
    phases = {f"{name}_seconds": s for name, s in self.seconds.items()}
    return {"total_seconds": self.total(), **phases}


class Throughput:
  """Rates between log lines, excluding the time of evaluations and saves.

  A step ends when its result is there. If that was so before it was asked for,
  the step counts as ended when its dispatch returned: a device that waits for
  the host, or a host that is the device, has computed it by then or soon after.
  If not even the step before had ended by then, it counts as ended only now.
  Steps take at least the time between their dispatches.

  Args:
    clock: Clock of the run; its phases 'evaluate' and 'save' do not count.
    batch_size: Examples per step.
    flops_per_step: Model FLOPs of a step, forward and backward.
    device_kind: Name of the accelerator in jax.
    num_devices: Number of devices of all processes.
  """

  _EXCLUDED = ("evaluate", "save", "report")

  def __init__(
    self,
    clock: Clock,
    *,
    batch_size: int,
    flops_per_step: float | int,
    device_kind: str,
    num_devices: int,
  ):
    self._clock = clock
    self._batch_size = batch_size
    self._flops_per_step = flops_per_step
    known = topologies.find_accelerator(device_kind)
    self._peak = known.flops_per_device * num_devices if known else None
    self._last = self._end = self._mark()
    self._last_dispatch = self._dispatch = self._end
    self._dispatched: collections.deque[tuple[float, float]] = (
      collections.deque()
    )

  def dispatched(self) -> None:
    """Notes that the dispatch of the next step has returned."""
    self._dispatched.append(self._mark())

  def _mark(self) -> tuple[float, float]:
    seconds = self._clock.seconds
    busy = self._clock.total() - sum(
      seconds.get(name, 0.0) for name in self._EXCLUDED
    )
    return busy, seconds.get("data", 0.0)

  def ended(self, *, waited: bool) -> None:
    """Notes the end of the first dispatched step that has not yet ended.

    Args:
      waited: True if its result was waited for until now.
    """
    self._dispatch = self._dispatched.popleft()
    waited |= self._dispatch < self._end
    self._end = self._mark() if waited else self._dispatch

  def since_last(self, steps: int) -> dict[str, float]:
    """Returns the `perf/` metrics of the last `steps` steps."""
    mark = self._end
    between = self._dispatch[0] - self._last_dispatch[0]
    elapsed = max(mark[0] - self._last[0], between, 1e-9)
    waited = mark[1] - self._last[1]
    self._last, self._last_dispatch = mark, self._dispatch
    metrics = {
      "perf/images_per_second": steps * self._batch_size / elapsed,
      "perf/data_wait_fraction": min(waited / elapsed, 1.0),
    }
    if self._peak:
      rate = steps * self._flops_per_step / elapsed
      metrics["perf/model_flops_utilization"] = rate / self._peak
    return metrics
