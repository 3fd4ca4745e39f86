"""A chart over integers, such as layers, with its own colours."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from vit_jax.report import formatting
from vit_jax.report.figures import axes, colours, frame, svg

_HEIGHT = 240.0


@dataclasses.dataclass(frozen=True)
class Series:
  """Values of one kind.

  Attributes:
    name: Name in the legend.
    x: Integers.
    y: Values, one for each x.
    colour: Colour as '#rrggbb'.
    mark: 'dots', 'line' (with a dot at each value) or 'dashes', for a single
      value across the plot.
  """

  name: str
  x: Float[np.ndarray, " n"]
  y: Float[np.ndarray, " n"]
  colour: str
  mark: str = "line"


def by_step(
  steps: Sequence[int],
  x: Float[np.ndarray, " n"],
  values: Float[np.ndarray, "steps n"],
) -> list[Series]:
  """Builds a line for each step of a run, the last one darkest."""
  shades = colours.series(len(steps))
  return [
    Series(f"step {step:,}", x, y.astype(float), colour)
    for step, y, colour in zip(steps, values, shades, strict=True)
  ]


def draw(
  series: Sequence[Series],
  *,
  x_label: str,
  y_label: str,
  from_zero: bool = True,
) -> svg.Markup:
  """Draws the series, the first at the bottom.

  Args:
    series: Series of finite values.
    x_label: Name of the axis of integers.
    y_label: Name of the other axis, with its unit.
    from_zero: Whether the y axis begins at 0.
  """
  legend, top = frame.legend(
    [one.name for one in series],
    y_label,
    lambda k, x, y: _marks(
      series[k],
      np.array([x + 7, x + 19, x + 31]),
      np.full(3, y),
      dots=slice(1, 2),
    ),
  )
  bottom = top + _HEIGHT
  values = np.concatenate([one.y for one in series])
  low = min(0.0, values.min()) if from_zero else values.min()
  y = axes.linear(float(low), float(values.max()), bottom, top, formatting.tick)
  x = counting_axis(np.concatenate([one.x for one in series]))
  marks = []
  for one in series:
    across = np.linspace(x.start, x.end, len(one.x))
    at = across if one.mark == "dashes" else x.at(one.x)
    marks.append(_marks(one, at, y.at(one.y)))
  return frame.chart(
    x,
    y,
    legend,
    *marks,
    unit=y_label,
    x_label=x_label,
    label=f"{y_label} by {x_label}",
  )


def counting_axis(values: np.ndarray) -> axes.Axis:
  """Builds an axis with integer ticks and at least half a unit of margin."""
  low, high = float(values.min()), float(values.max())
  free = max(0.5, 0.02 * (high - low))
  start, end = frame.ACROSS
  step = max(1, math.ceil((high - low + 1) * 28 / (end - start)))
  if step > 2:
    step = next(s for s in (4, 5, 10, 20, 25, 50, 100, 200, 500) if s >= step)
  ticks = [t for t in range(int(low), int(high) + 1) if t % step == 0]
  if low == 1 and step > 2:
    ticks = [1, *ticks]
  named = tuple((float(t), str(t)) for t in ticks)
  return axes.Axis(low - free, high + free, start, end, False, named)


def _marks(
  one: Series, x: np.ndarray, y: np.ndarray, *, dots: slice = slice(None)
) -> svg.Markup:
  """Draws marks at pixel positions, with dots at some of them."""
  if one.mark == "dashes":
    x, y = x[[0, -1]], y[[0, -1]]  # Dashes restart at every point.
    return frame.path(
      x, y, stroke=colours.MUTED, stroke_dasharray="4 4", fill="none"
    )
  parts, radius = [], 2.8
  if one.mark == "line":
    parts.append(frame.path(x, y, stroke=one.colour, class_="line"))
    radius = 2.2
  parts += [
    svg.element("circle", cx=cx, cy=cy, r=radius, fill=one.colour)
    for cx, cy in zip(x[dots].tolist(), y[dots].tolist(), strict=True)
  ]
  return svg.element("g", *parts)
