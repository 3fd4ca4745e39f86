"""Predicted numbers against the true ones."""

import numpy as np

from vit_jax.report import formatting
from vit_jax.report.figures import axes, frame, svg

WIDTH, HEIGHT = 340.0, 300.0
MOST_DOTS = 1000  # Of more, evenly spaced examples are drawn.


def draw(
  truth: np.ndarray, predicted: np.ndarray, *, unit: str, label: str
) -> svg.Markup | None:
  """Draws a dot for each example; None if no prediction is finite.

  Args:
    truth: True numbers [n].
    predicted: Predicted numbers [n].
    unit: Name of the number.
    label: Text alternative.
  """
  finite = np.isfinite(truth) & np.isfinite(predicted)
  truth, predicted = truth[finite], predicted[finite]
  if not len(truth):
    return None
  bottom, top = HEIGHT - frame.BOTTOM, 28.0
  low = float(min(truth.min(), predicted.min()))
  high = float(max(truth.max(), predicted.max()))
  y = axes.linear(low, high, bottom, top, formatting.tick)
  x = axes.linear(
    low, high, frame.LEFT, WIDTH - frame.RIGHT, formatting.tick, num_ticks=4
  )
  ends = max(x.low, y.low), min(x.high, y.high)
  shown = np.arange(len(truth))
  if len(truth) > MOST_DOTS:
    shown = np.linspace(0, len(truth) - 1, MOST_DOTS).round().astype(int)
  places = zip(x.at(truth[shown]), y.at(predicted[shown]), strict=True)
  marks = [
    svg.line(
      (x.place(ends[0]), x.place(ends[1])),
      (y.place(ends[0]), y.place(ends[1])),
      "ideal",
    ),
    # The dots are round ends of zero-length lines: one element for all.
    svg.element(
      "path", d="".join(f"M{a:.1f} {b:.1f}h0" for a, b in places), class_="dots"
    ),
  ]
  return frame.chart(
    x,
    y,
    *marks,
    unit=f"predicted {svg.shorten(unit, 30)}",
    x_label="truth",
    label=label,
  )
