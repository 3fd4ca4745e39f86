"""Line charts of metrics over steps."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from vit_jax.report import formatting, smoothing
from vit_jax.report.figures import axes, frame, svg
from vit_jax.report.run import Series

MARKERS = 40  # Series with more points are drawn without markers.


@dataclasses.dataclass(frozen=True)
class Line:
  """One named series; `smooth` draws its mean in front of it."""

  name: str
  series: Series
  smooth: bool = False


@dataclasses.dataclass(frozen=True)
class Scale:
  """Type of the y axis: 'linear', 'log', or 'auto' by the data's span."""

  kind: str = "linear"
  label: axes.Label = formatting.tick
  from_zero: bool = False
  top: float | None = None


def draw(
  lines: Sequence[Line],
  *,
  unit: str,
  label: str,
  scale: Scale,
  span: tuple[float, float],
  x_label: str = "step",
) -> svg.Markup | None:
  """Draws the lines over steps; None if no value is finite.

  Args:
    lines: Series, drawn in this order with distinct colours and dashes.
    unit: Name of the y axis, written above it.
    label: Text alternative.
    scale: Scale of the y axis.
    span: First and last step of the x axis.
    x_label: Name of the x axis.
  """
  lines = [line for line in lines if len(line.series.finite)]
  if not lines:
    return None
  legend, top = frame.legend([line.name for line in lines], unit)
  bottom = top + frame.PLOT_HEIGHT
  y = _y_axis(lines, scale, bottom, top)
  x = axes.linear(
    *span, *frame.ACROSS, formatting.short_count, widen=False, whole=True
  )
  marks = [_marks(line, index, x, y) for index, line in enumerate(lines)]
  return frame.chart(
    x,
    y,
    legend,
    # A nested viewport clips without an id that could clash with other figures.
    svg.element(
      "svg",
      *marks,
      x=0,
      y=top - 4,
      width=frame.WIDTH,
      height=frame.PLOT_HEIGHT + 8,
      viewBox=f"0 {top - 4:g} {frame.WIDTH:g} {frame.PLOT_HEIGHT + 8:g}",
    ),
    unit=unit,
    x_label=x_label,
    label=label,
  )


def _smooth(line: Line) -> np.ndarray:
  values = line.series.values
  return smoothing.centred_mean(values, smoothing.window_length(len(values)))


def _y_axis(
  lines: Sequence[Line], scale: Scale, start: float, end: float
) -> axes.Axis:
  """Covers the lines; for noisy ones, the mean and all but outliers."""
  parts = []
  for line in lines:
    values = line.series.finite.values
    if line.smooth and len(values) >= 20:
      mean = _smooth(line)
      parts += [mean[np.isfinite(mean)], np.percentile(values, [2, 98])]
    else:
      parts.append(values)
  values = np.concatenate(parts)
  low, high = float(values.min()), float(values.max())
  if scale.kind == "log" or (scale.kind == "auto" and low * 25 < high):
    positive = values[values > 0]
    if len(positive) and (scale.kind == "log" or low > 0):
      return axes.logarithmic(
        float(positive.min()), high, start, end, scale.label
      )
  if scale.from_zero or (scale.kind == "auto" and 0 <= low < 0.4 * high):
    low = min(low, 0.0)
  return axes.linear(low, high, start, end, scale.label, top=scale.top)


def _at(line: Line, step: int) -> str:
  """Names a point of a line, which may be the only one and have no name."""
  return f"{line.name}, step {step:,}".removeprefix(", ")


def _marks(line: Line, kind: int, x: axes.Axis, y: axes.Axis) -> svg.Markup:
  series, style = line.series, frame.style(kind)
  parts = []
  smooth = line.smooth and smoothing.window_length(len(series)) > 1
  values = _smooth(line) if smooth else series.values
  if smooth:
    raw = smoothing.thin(series.steps, series.values)
    parts.append(frame.path(x.at(raw[0]), y.at(raw[1]), class_=f"raw {style}"))
  steps, values = smoothing.thin(series.steps, values)
  parts.append(frame.path(x.at(steps), y.at(values), class_=f"line {style}"))
  if len(series) <= MARKERS and not line.smooth or len(series.finite) == 1:
    for step, value in zip(
      series.finite.steps, series.finite.values, strict=True
    ):
      title = f"{_at(line, int(step))}: {formatting.quantity(value, 5)}"
      px, py = x.place(float(step)), y.place(value)
      if math.isfinite(px) and math.isfinite(py):
        parts.append(frame.marker(kind, px, py, title))
  # A cross at the bottom of the plot if a value is not a number.
  lost = series.steps[~np.isfinite(series.values)][:50]
  for step, px in zip(lost, x.at(lost), strict=True):
    parts.append(
      svg.element(
        "path",
        svg.element("title", f"{_at(line, int(step))}: not a finite number"),
        d="M-3 -3L3 3M-3 3L3 -3",
        transform=f"translate({px:.1f} {y.start - 6:.1f})",
        class_="lost",
      )
    )
  return svg.element("g", *parts)
