"""Progress output for a person watching a run or another long task."""

import math
import shutil
import sys
import time
from collections.abc import Iterable, Mapping
from io import TextIOBase

_SECONDS_BETWEEN_LINES = 10.0
_SECONDS_BETWEEN_TICKS = 0.2
_BAR_WIDTH = 30


class Progress:
  """A progress bar on a terminal, plain lines elsewhere.

  Args:
    total_steps: Length of the run in steps.
    stream: Stream to write to; None writes nothing (processes other than the
      first).
  """

  def __init__(self, total_steps: int, stream: TextIOBase | None = sys.stdout):
    self._total_steps = total_steps
    self._stream = stream
    self._is_terminal = bool(stream and stream.isatty())
    self._open_line = 0
    self._metrics = ""
    self._last_drawn = -math.inf

  def tick(self, step: int) -> None:
    """Updates the bar on a terminal after a step, a few times per second."""
    now = time.monotonic()
    if self._is_terminal and now - self._last_drawn >= _SECONDS_BETWEEN_TICKS:
      self._last_drawn = now
      self._draw(step)

  def step(
    self,
    step: int,
    metrics: Mapping[str, float | int],
    *,
    seconds_left: float | int,
  ) -> None:
    """Shows the training metrics of a logged step, and the remaining time."""
    parts = [
      f"loss {metrics['train/loss']:.4f}",
      f"lr {metrics['train/learning_rate']:.2e}",
      f"{metrics['perf/images_per_second']:.4g} images/s",
      f"data wait {metrics['perf/data_wait_fraction']:.1%}",
    ]
    if "perf/model_flops_utilization" in metrics:
      parts.append(f"MFU {metrics['perf/model_flops_utilization']:.1%}")
    parts.append(f"ETA {format_duration(seconds_left)}")
    self._metrics = "  ".join(parts)
    if self._is_terminal:
      self._draw(step)
    elif self._stream is not None:
      self._stream.write(f"step {self._of(step)}  {self._metrics}\n")
      self._stream.flush()

  def _draw(self, step: int) -> None:
    full = _BAR_WIDTH * step // self._total_steps
    bar = "#" * full + "." * (_BAR_WIDTH - full)
    text = f"[{bar}] {self._of(step)}  {self._metrics}"
    # A longer line could not be overwritten.
    text = text[: shutil.get_terminal_size().columns - 1]
    self._stream.write("\r" + text.ljust(self._open_line))
    self._open_line = len(text)
    self._stream.flush()

  def _of(self, step: int) -> str:
    return f"{step:{len(str(self._total_steps))}}/{self._total_steps}"

  def say(self, text: str, items: Iterable[str] = ()) -> None:
    """Prints a separate line, which a terminal breaks between items only."""
    if self._stream is None:
      return
    width = (
      shutil.get_terminal_size().columns if self._is_terminal else math.inf
    )
    length, gap = len(text), " "
    for item in items:
      length += len(gap) + len(item)
      if length > width:
        gap = "\n  "
        length = len(item) + 2
      text += gap + item
      gap = "  "
    if self._open_line:
      self._stream.write("\n")
      self._open_line = 0
    self._stream.write(text + "\n")
    self._stream.flush()


def format_duration(seconds: float | int) -> str:
  """Formats '45 s', '12 min 05 s', '3 h 20 min', '2 d 4 h'."""
  seconds = round(seconds)
  if seconds < 60:
    return f"{seconds} s"
  if seconds < 3600:
    return f"{seconds // 60} min {seconds % 60:02} s"
  if seconds < 86400:
    return f"{seconds // 3600} h {seconds % 3600 // 60:02} min"
  return f"{seconds // 86400:,} d {seconds % 86400 // 3600} h"


class CountProgress:
  """A progress bar on a terminal, an occasional line elsewhere."""

  def __init__(self):
    self._is_terminal = sys.stderr.isatty()
    self._what = ""
    self._start = self._last_line = time.monotonic()
    self._done_at_start = 0
    self._has_open_line = False

  def show(self, what: str, done: int, total: int) -> None:
    """Shows that `done` of `total` items are done."""
    now = time.monotonic()
    if what != self._what:
      self.close()
      self._what, self._done_at_start = what, done
    if done == self._done_at_start:
      self._start = now  # Excludes the start of processes.
    interval = 0.2 if self._is_terminal else _SECONDS_BETWEEN_LINES
    if now - self._last_line < interval and done < total:
      return
    self._last_line = now
    text = f"{done} of {total} {what}"
    rate = (done - self._done_at_start) / max(now - self._start, 1e-9)
    if rate:
      left = format_duration((total - done) / rate)
      text += f"  {rate:.4g}/s  {left} left"
    if self._is_terminal:
      full = _BAR_WIDTH * done // max(total, 1)
      bar = "#" * full + "." * (_BAR_WIDTH - full)
      # Clears the rest of a longer line.
      print(f"\r[{bar}] {text}\x1b[K", end="", file=sys.stderr, flush=True)
      self._has_open_line = True
    elif self._done_at_start < done < total:
      print(text, file=sys.stderr, flush=True)

  def close(self) -> None:
    """Ends the bar's line."""
    if self._has_open_line:
      print(file=sys.stderr, flush=True)
      self._has_open_line = False
