"""Parts shared by charts: grid and ticks, legend, lines and markers."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from vit_jax.report.figures import axes, svg

WIDTH, PLOT_HEIGHT = 440.0, 186.0
LEFT, RIGHT, TOP, BOTTOM = 50.0, 16.0, 30.0, 40.0
ACROSS = LEFT, WIDTH - RIGHT  # Ends of the x axis.
FONT = 11.5
ROW = 16.0  # Height of a legend row.
# Draws the sample of series `kind` in the legend, at (x, y) in pixels.
Sample = Callable[[int, float, float], svg.Markup]
_SAMPLE = 50.0  # Pixels of a legend entry besides its name.


def chart(
  x: axes.Axis,
  y: axes.Axis,
  *marks: svg.Markup,
  unit: str,
  x_label: str,
  label: str,
) -> svg.Markup:
  """Draws a figure: grid, ticks and axis names, then the marks.

  Args:
    x: Axis along the bottom of the plot.
    y: Axis from the bottom of the plot to its top.
    *marks: Legend and marks, the first at the bottom.
    unit: Name of the y axis, written above it.
    x_label: Name of the x axis.
    label: Text alternative.
  """
  parts = []
  for value, text in y.ticks:
    at = y.place(value)
    parts.append(svg.line((x.start, x.end), (at, at), "grid"))
    parts.append(svg.text(text, x.start - 7, at + 4, "tick end"))
  foot = y.start
  parts.append(svg.line((x.start, x.end), (foot, foot), "axis"))
  for value, text in x.ticks:
    at = x.place(value)
    parts.append(svg.line((at, at), (foot, foot + 4), "axis"))
    parts.append(svg.text(text, at, foot + 17, "tick middle"))
  parts.append(svg.text(x_label, x.end, foot + 33, "axis-name end"))
  parts.append(svg.text(unit, 4, 14, "axis-name"))
  return svg.figure(
    svg.element("g", *parts),
    *marks,
    width=x.end + RIGHT,
    height=foot + BOTTOM,
    label=label,
    class_="chart",
  )


def style(kind: int) -> str:
  """Returns the CSS classes of a series: a colour and a dash pattern.

  From the seventh series on, colours repeat with other dashes and markers.
  """
  return f"s{kind % 6} d{(kind + kind // 6) % 6}"


def legend(
  names: Sequence[str], unit: str, sample: Sample | None = None
) -> tuple[svg.Markup, float]:
  """Draws the legend, right-aligned above the plot; returns the plot's top.

  A single series without a name has no legend, as the caption names it. Each
  name is next to its line or marker. If one does not fit next to the unit, all
  are placed below it; a name is cut only if it is longer than such a row.
  """
  if list(names) == [""]:
    return svg.Markup(), TOP
  free = WIDTH - RIGHT - svg.text_width(unit, FONT) - 14
  first = 0
  if max(map(_entry_width, names)) > free:
    first, free = 1, WIDTH - RIGHT
  longest = int((free - _SAMPLE) / svg.text_width("x", FONT))
  shown = [
    name if _entry_width(name) <= free else svg.shorten(name, longest)
    for name in names
  ]
  widths = [_entry_width(name) for name in shown]
  rows: list[list[int]] = [[]]
  for index, width in enumerate(widths):
    if rows[-1] and sum(widths[k] for k in rows[-1]) + width > free:
      rows.append([])
    rows[-1].append(index)
  parts = []
  for row, members in enumerate(rows):
    at = WIDTH - RIGHT - sum(widths[k] for k in members)
    y = 10.0 + ROW * (first + row)
    for k in members:
      parts.append((sample or _line_sample)(k, at, y))
      parts.append(svg.text(shown[k], at + 37, y + 4))
      at += widths[k]
  return svg.element("g", *parts), TOP + ROW * (first + len(rows) - 1)


def _line_sample(kind: int, x: float, y: float) -> svg.Markup:
  return svg.line((x + 8, x + 32), (y, y), f"line {style(kind)}")


def _entry_width(name: str) -> float:
  return svg.text_width(name, FONT) + _SAMPLE


def path(x: np.ndarray, y: np.ndarray, **attributes) -> svg.Markup:
  """Draws a polyline through pixel positions, broken at NaN."""
  words, pen_down = [], False
  for px, py in zip(x, y, strict=True):
    if not (math.isfinite(px) and math.isfinite(py)):
      pen_down = False
      continue
    words.append(f"{'L' if pen_down else 'M'}{px:.1f} {py:.1f}")
    pen_down = True
  return svg.element("path", d="".join(words), **attributes)


def marker(
  kind: int, x: float, y: float, title: str, *, hollow: bool = False
) -> svg.Markup:
  """Draws a point; its shape, like its colour, identifies the series."""
  shapes = (
    "M-3.4 0a3.4 3.4 0 1 0 6.8 0a3.4 3.4 0 1 0 -6.8 0Z",
    "M-3 -3h6v6h-6Z",
    "M0 -4.4L4.4 0L0 4.4L-4.4 0Z",
    "M0 -4L4 3.2H-4Z",
    "M0 4L4 -3.2H-4Z",
    "M-4 -1.2h2.8v-2.8h2.4v2.8h2.8v2.4h-2.8v2.8h-2.4v-2.8h-2.8Z",
  )
  return svg.element(
    "path",
    svg.element("title", title),
    d=shapes[(kind + kind // 6) % 6],
    transform=f"translate({x:.1f} {y:.1f})",
    class_=f"{'hollow' if hollow else 'marker'} {style(kind)}",
  )
