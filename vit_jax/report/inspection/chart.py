"""A chart of points and lines with two axes and one legend."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from vit_jax.report import formatting
from vit_jax.report.figures import axes
from vit_jax.report.inspection.canvas import FONT, Canvas, text_width
from vit_jax.report.inspection.colours import HAIR, INK, MUTED

WIDTH, PLOT_HEIGHT = 460.0, 240.0
_LEFT, _RIGHT, _BOTTOM = 56.0, 14.0, 46.0
_ROW = 18.0  # Of the legend.
_SAMPLE = 24.0
_GAP = 16.0


@dataclasses.dataclass(frozen=True)
class Series:
  """Values of one kind.

  Attributes:
    name: in the legend.
    x: whole numbers.
    y: as many.
    colour: '#rrggbb'.
    mark: 'dots', 'line' (with a dot at each value) or 'dashes'.
  """

  name: str
  x: Float[np.ndarray, " n"]
  y: Float[np.ndarray, " n"]
  colour: str
  mark: str = "line"


def draw(
  series: Sequence[Series],
  *,
  x_label: str,
  y_label: str,
  from_zero: bool = True,
) -> Canvas:
  """The chart; what is drawn first lies below.

  Args:
    series: with finite values.
    x_label: what the axis of whole numbers counts.
    y_label: what the other measures, with its unit.
    from_zero: whether the y axis begins at 0.
  """
  places = _legend_places([one.name for one in series])
  top = 10.0 + _ROW * (places[-1][1] + 1)
  canvas = Canvas(WIDTH, top + PLOT_HEIGHT + _BOTTOM)
  bottom = top + PLOT_HEIGHT
  values = np.concatenate([one.y for one in series])
  low = min(0.0, values.min()) if from_zero else values.min()
  y = axes.linear(
    float(low), float(values.max()), bottom, top, formatting.quantity
  )
  x = counting_axis(np.concatenate([one.x for one in series]))
  _frame(canvas, x, y, x_label, y_label)
  for one in series:
    _marks(canvas, one, x, y)
  for one, (left, row) in zip(series, places, strict=True):
    _legend_entry(canvas, one, left, 10.0 + _ROW * row)
  return canvas


def counting_axis(values: np.ndarray) -> axes.Axis:
  """Ticks at whole numbers only, and half a place free at both ends."""
  low, high = float(values.min()), float(values.max())
  free = max(0.5, 0.02 * (high - low))
  room = (WIDTH - _RIGHT - _LEFT) / 28  # Labels that fit.
  step = max(1, math.ceil((high - low + 1) / room))
  if step > 2:
    step = next(s for s in (4, 5, 10, 20, 25, 50, 100, 200, 500) if s >= step)
  ticks = [t for t in range(int(low), int(high) + 1) if t % step == 0]
  if low == 1 and step > 2:
    ticks = [1, *ticks]
  return axes.Axis(
    low - free,
    high + free,
    _LEFT,
    WIDTH - _RIGHT,
    False,
    tuple((float(t), str(t)) for t in ticks),
  )


def _frame(
  canvas: Canvas, x: axes.Axis, y: axes.Axis, x_label: str, y_label: str
) -> None:
  for value, words in y.ticks:
    at = y.place(value)
    canvas.line([(x.start, at), (x.end, at)], HAIR)
    canvas.text(x.start - 7, at, words, colour=MUTED, anchor="rm")
  canvas.line([(x.start, y.start), (x.end, y.start)], MUTED)
  for value, words in x.ticks:
    at = x.place(value)
    canvas.line([(at, y.start), (at, y.start + 4)], MUTED)
    canvas.text(at, y.start + 17, words, colour=MUTED, anchor="ms")
  middle = (x.start + x.end) / 2
  canvas.text(middle, y.start + 37, x_label, anchor="ms")
  canvas.text(10.0, (y.start + y.end) / 2, y_label, turned=True)


def _marks(canvas: Canvas, one: Series, x: axes.Axis, y: axes.Axis) -> None:
  points = list(zip(x.at(one.x).tolist(), y.at(one.y).tolist(), strict=True))
  if one.mark == "dashes":
    # Across the plot: it is one value, whatever x is.
    canvas.line(
      [(x.start, points[0][1]), (x.end, points[-1][1])], MUTED, 1.0, 4.0
    )
    return
  if one.mark == "line" and len(points) > 1:
    canvas.line(points, one.colour, 1.8)
  for place in points:
    canvas.dot(*place, 2.2 if one.mark == "line" else 2.8, one.colour)


def _legend_places(names: Sequence[str]) -> list[tuple[float, int]]:
  """Where each entry starts, points from the left, and its row."""
  places: list[tuple[float, int]] = []
  left, row = _LEFT, 0
  for name in names:
    width = _SAMPLE + 6 + text_width(name)
    if places and left + width > WIDTH - _RIGHT:
      left, row = _LEFT, row + 1
    places.append((left, row))
    left += width + _GAP
  return places


def _legend_entry(canvas: Canvas, one: Series, left: float, y: float) -> None:
  middle = left + _SAMPLE / 2
  ends = [(left, y), (left + _SAMPLE, y)]
  if one.mark == "dashes":
    canvas.line(ends, MUTED, 1.0, 4.0)
  elif one.mark == "line":
    canvas.line(ends, one.colour, 1.8)
  if one.mark != "dashes":
    canvas.dot(middle, y, 2.2 if one.mark == "line" else 2.8, one.colour)
  canvas.text(left + _SAMPLE + 6, y + 0.35 * FONT, one.name, colour=INK)
