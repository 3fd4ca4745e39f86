"""Accuracy against counts, such as examples per class, with deviations."""

from collections.abc import Sequence

import numpy as np

from vit_jax.report import formatting
from vit_jax.report.figures import axes, frame, svg
from vit_jax.report.measures import Curve


def draw(
  rows: Sequence[Curve], *, label: str, x_label: str = "examples per class"
) -> svg.Markup | None:
  """One line per row over its counts (log scale); None without values.

  Args:
    rows: Curves whose cells are keyed by the counts.
    label: Text alternative.
    x_label: Name of the counts.
  """
  rows = [row for row in rows if row.finite_cells]
  if not rows:
    return None
  legend, top = frame.legend([row.name for row in rows], "accuracy")
  points = [cell for row in rows for cell in row.finite_cells.values()]
  low = min(cell.mean - (cell.std or 0) for cell in points)
  high = max(cell.mean + (cell.std or 0) for cell in points)
  shots = sorted({shot for row in rows for shot in row.finite_cells})
  y = axes.linear(
    max(low, 0.0),
    min(high, 1.0),
    top + frame.PLOT_HEIGHT,
    top,
    formatting.percent_tick,
  )
  x = axes.Axis(
    low=shots[0] / 1.35,
    high=shots[-1] * 1.6,
    start=frame.LEFT,
    end=frame.WIDTH - frame.RIGHT,
    log=True,
    ticks=tuple((float(shot), str(shot)) for shot in shots),
  )
  marks = []
  for kind, row in enumerate(rows):
    cells, style = row.finite_cells, frame.style(kind)
    at = x.at(np.array(list(cells), float))
    # Side by side, so that error bars do not hide each other.
    at = at + 5.0 * (kind - (len(rows) - 1) / 2) * min(1.0, 6 / len(rows))
    means = np.array([cell.mean for cell in cells.values()])
    marks.append(frame.path(at, y.at(means), class_=f"line {style}"))
    for px, (shot, cell) in zip(at, cells.items(), strict=True):
      if cell.std is not None:
        bar = y.at(np.array([cell.mean - cell.std, cell.mean + cell.std]))
        marks.append(
          svg.element(
            "line",
            x1=float(px),
            x2=float(px),
            y1=float(bar[0]),
            y2=float(bar[1]),
            class_=f"bar {style}",
          )
        )
      title = f"{row.name}, {shot} {x_label}: {cell.text}"
      marks.append(frame.marker(kind, float(px), y.place(cell.mean), title))
  return svg.figure(
    frame.axes_frame(x, y, unit="accuracy", x_label=x_label),
    legend,
    *marks,
    width=frame.WIDTH,
    height=top + frame.PLOT_HEIGHT + frame.BOTTOM,
    label=label,
    class_="chart",
  )
