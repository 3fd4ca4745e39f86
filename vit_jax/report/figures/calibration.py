"""Accuracy of predictions by their confidence."""

import functools

import numpy as np

from vit_jax.report import formatting
from vit_jax.report.figures import axes, frame, svg
from vit_jax.report.predictions import Bin

WIDTH, HEIGHT = 340.0, 300.0


def draw(bins: list[Bin], *, label: str) -> svg.Markup:
  """Draws accuracy against mean confidence; area shows a bin's size."""
  bottom, top = HEIGHT - frame.BOTTOM, 28.0
  write = functools.partial(formatting.percent, digits=0)
  y = axes.linear(0.0, 1.0, bottom, top, write)
  x = axes.linear(0.0, 1.0, frame.LEFT, WIDTH - frame.RIGHT, write)
  largest = max(b.num_examples for b in bins)
  marks = [
    svg.line((x.start, x.end), (y.start, y.end), "ideal"),
    frame.path(
      x.at(np.array([b.confidence for b in bins])),
      y.at(np.array([b.accuracy for b in bins])),
      class_="raw s0",
    ),
  ]
  for b in bins:
    marks.append(
      svg.element(
        "circle",
        svg.element(
          "title",
          f"{b.num_examples:,} images, confidence"
          f" {formatting.percent(b.confidence, 1)}, accuracy"
          f" {formatting.percent(b.accuracy, 1)}",
        ),
        cx=x.place(b.confidence),
        cy=y.place(b.accuracy),
        r=2.5 + 8.5 * (b.num_examples / largest) ** 0.5,
        class_="bubble",
      )
    )
  return frame.chart(
    x, y, *marks, unit="accuracy", x_label="confidence", label=label
  )
