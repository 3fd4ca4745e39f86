"""Accuracy against a quantity that spans powers of ten: cost, or data."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from vit_jax.report import formatting
from vit_jax.report.figures import axes, frame, svg


@dataclasses.dataclass(frozen=True)
class Point:
  """A point; `y` is a fraction and `std` its standard deviation, if known."""

  x: int | float
  y: float
  title: str
  std: float | None = None


@dataclasses.dataclass(frozen=True)
class Cloud:
  """Points of one kind; printed ones are hollow, measured ones filled.

  Attributes:
    name: Name in the legend.
    printed: Points from the paper.
    measured: Points from runs.
    is_joined: True if each of the two kinds is joined by a line along x.
  """

  name: str
  printed: tuple[Point, ...] = ()
  measured: tuple[Point, ...] = ()
  is_joined: bool = False

  @property
  def points(self) -> tuple[Point, ...]:
    return self.printed + self.measured


def draw(
  clouds: Sequence[Cloud],
  *,
  unit: str,
  x_label: str,
  label: str,
  counted: bool = False,
) -> svg.Markup | None:
  """Draws clouds over a logarithmic axis; None if there are no points.

  Args:
    clouds: Clouds, drawn with distinct colours and markers.
    unit: Name of the y axis, written above it.
    x_label: Name of the x axis.
    label: Text alternative.
    counted: Whether x is one of a few counts, such as shots: the axis then
      labels each of them, and the clouds are placed side by side, so that their
      error bars do not overlap.
  """
  clouds = [cloud for cloud in clouds if cloud.points]
  if not clouds:
    return None
  legend, top = frame.legend(
    [cloud.name for cloud in clouds],
    unit,
    None
    if counted
    else lambda k, x, y: frame.marker(k, x + 26, y, clouds[k].name),
  )
  points = [point for cloud in clouds for point in cloud.points]
  low = min(point.y - (point.std or 0) for point in points)
  high = max(point.y + (point.std or 0) for point in points)
  bottom = top + frame.PLOT_HEIGHT
  y = axes.linear(
    max(low, 0.0), min(high, 1.0), bottom, top, formatting.percent_tick, top=1.0
  )
  xs = sorted({float(point.x) for point in points})
  if counted:
    ticks = tuple((count, f"{count:g}") for count in xs)
    x = axes.Axis(xs[0] / 1.35, xs[-1] * 1.6, *frame.ACROSS, True, ticks)
    beside = 5.0 * min(1.0, 6 / len(clouds))
  else:
    x = axes.logarithmic(xs[0], xs[-1], *frame.ACROSS, formatting.short_count)
    beside = 0.0
  marks = []
  for kind, cloud in enumerate(clouds):
    shift = beside * (kind - (len(clouds) - 1) / 2)
    moved = dataclasses.replace(x, start=x.start + shift, end=x.end + shift)
    marks.append(_marks(cloud, kind, moved, y))
  return frame.chart(
    x, y, legend, *marks, unit=unit, x_label=x_label, label=label
  )


def _marks(cloud: Cloud, kind: int, x: axes.Axis, y: axes.Axis) -> svg.Markup:
  style, parts = frame.style(kind), []
  for points, line in ((cloud.printed, "raw"), (cloud.measured, "line")):
    if cloud.is_joined and len(points) > 1:
      along = sorted(points, key=lambda point: point.x)
      parts.append(
        frame.path(
          x.at(np.array([point.x for point in along], float)),
          y.at(np.array([point.y for point in along])),
          class_=f"{line} {style}",
        )
      )
  parts += [
    frame.marker(kind, x.place(float(p.x)), y.place(p.y), p.title, hollow=True)
    for p in cloud.printed
  ]
  for point in cloud.measured:
    px = x.place(float(point.x))
    if point.std is not None and math.isfinite(point.std):
      low = y.place(max(point.y - point.std, y.low))
      high = y.place(min(point.y + point.std, y.high))
      parts.append(svg.line((px, px), (low, high), f"bar {style}"))
    parts.append(frame.marker(kind, px, y.place(point.y), point.title))
  return svg.element("g", *parts)
