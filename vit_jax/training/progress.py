"""What a person sees while a run trains."""

import sys
from collections.abc import Mapping
from io import TextIOBase


class Progress:
  """One line that renews itself on a terminal, plain lines elsewhere.

  Args:
    total_steps: length of the run.
    stream: where to write; None: nowhere (processes other than the first).
  """

  def __init__(self, total_steps: int, stream: TextIOBase | None = sys.stdout):
    self._total_steps = total_steps
    self._stream = stream
    self._is_terminal = bool(stream and stream.isatty())
    self._open_line = 0

  def step(
    self,
    step: int,
    metrics: Mapping[str, float | int],
    seconds_per_step: float | int,
  ) -> None:
    """Shows the training metrics of a logged step."""
    width = len(str(self._total_steps))
    parts = [
      f"step {step:{width}}/{self._total_steps}",
      f"loss {metrics['train/loss']:.4f}",
      f"lr {metrics['train/learning_rate']:.2e}",
      f"{metrics['perf/images_per_second']:.4g} images/s",
      f"data wait {metrics['perf/data_wait_fraction']:.1%}",
    ]
    if "perf/model_flops_utilization" in metrics:
      parts.append(f"MFU {metrics['perf/model_flops_utilization']:.1%}")
    left = (self._total_steps - step) * seconds_per_step
    parts.append(f"ETA {format_duration(left)}")
    text = "  ".join(parts)
    if self._stream is None:
      return
    if self._is_terminal:
      self._stream.write("\r" + text.ljust(self._open_line))
      self._open_line = len(text)
    else:
      self._stream.write(text + "\n")
    self._stream.flush()

  def say(self, text: str) -> None:
    """A line of its own."""
    if self._stream is None:
      return
    if self._open_line:
      self._stream.write("\n")
      self._open_line = 0
    self._stream.write(text + "\n")
    self._stream.flush()


def format_duration(seconds: float | int) -> str:
  """'45 s', '12 min 05 s', '3 h 20 min', '2 d 4 h'."""
  seconds = round(seconds)
  if seconds < 60:
    return f"{seconds} s"
  if seconds < 3600:
    return f"{seconds // 60} min {seconds % 60:02} s"
  if seconds < 86400:
    return f"{seconds // 3600} h {seconds % 3600 // 60:02} min"
  return f"{seconds // 86400} d {seconds % 86400 // 3600} h"
