"""A confusion matrix with its counts; rows are the truth."""

import numpy as np

from vit_jax.report import formatting
from vit_jax.report.figures import svg

LARGEST = 30  # Number of classes up to which cells are legible.
FONT = 11.5


def draw(
  counts: np.ndarray, names: list[str], *, label: str
) -> tuple[svg.Markup, float]:
  """Draws the matrix; also returns its natural width in pixels.

  The diagonal is shaded by the fraction of a class that was right; the other
  cells, in a second hue, by their fraction relative to the worst of them, so
  that rare confusions are visible. Every nonzero count is shown.

  Args:
    counts: Integers [k, k], with truths as rows and predictions as columns.
    names: Names of the k classes.
    label: Text alternative.
  """
  k = len(counts)
  names = [svg.shorten(name, 16) for name in names]
  digits = len(f"{counts.max():,}")
  cell = max(32.0 if k <= 12 else 22.0, 7.0 * digits + 7)
  longest = max(svg.text_width(name, FONT) for name in names)
  left = longest + 28
  slanted = longest > cell - 4
  head = (longest * 0.75 + 34) if slanted else 42.0
  # Slanted names of the last columns extend to the right.
  right = max(64.0, longest * 0.75 + 8 if slanted else 0.0)
  width, height = left + k * cell + right, head + k * cell + 6
  totals = counts.sum(axis=1)
  share = counts / np.maximum(totals, 1)[:, None]
  wrong = share.copy()
  np.fill_diagonal(wrong, 0)
  worst = max(float(wrong.max()), 1e-9)
  past = left + k * cell + 8  # Position of the recalls.
  parts = [
    svg.text("prediction", left, 13, "axis-name"),
    _turned("truth", 12.0, head, -90, "axis-name end"),
    svg.text("recall", past, 13.0 if slanted else head - 8, "axis-name"),
  ]
  for i, name in enumerate(names):
    middle, y = left + (i + 0.5) * cell, head + (i + 0.5) * cell + 4
    recall = share[i, i] if totals[i] else None
    parts += [
      _turned(name, middle, head - 8, -45, "tick")
      if slanted
      else svg.text(name, middle, head - 8, "tick middle"),
      svg.text(name, left - 6, y, "tick end"),
      svg.text(formatting.percent(recall, 1), past, y, "tick"),
    ]
  for i, j in np.ndindex(k, k):
    is_right = i == j
    strength = share[i, j] if is_right else 0.75 * wrong[i, j] / worst
    shade = strength * 0.92 + (0.08 if counts[i, j] else 0)
    x, y = left + j * cell, head + i * cell
    title = (
      f"{names[i]} taken for {names[j]}: {counts[i, j]:,} of {totals[i]:,}"
    )
    parts.append(
      svg.element(
        "rect",
        svg.element("title", title),
        x=x,
        y=y,
        width=cell,
        height=cell,
        class_="right" if is_right else "wrong",
        fill_opacity=f"{min(shade, 1):.3f}",
      )
    )
    if counts[i, j]:
      strong = " strong" if is_right and shade > 0.55 else ""
      words, class_ = f"{counts[i, j]:,}", f"count middle{strong}"
      parts.append(svg.text(words, x + 0.5 * cell, y + 0.5 * cell + 4, class_))
  grid = "".join(
    f"M{left:.1f} {head + i * cell:.1f}h{k * cell:.1f}"
    f"M{left + i * cell:.1f} {head:.1f}v{k * cell:.1f}"
    for i in range(k + 1)
  )
  parts.append(svg.element("path", d=grid, class_="cells"))
  figure = svg.figure(
    *parts, width=width, height=height, label=label, class_="confusion"
  )
  return figure, width


def _turned(
  words: str, x: float, y: float, degrees: int, class_: str
) -> svg.Markup:
  place = f"translate({x:.1f} {y:.1f}) rotate({degrees})"
  return svg.element("text", words, transform=place, class_=class_)
