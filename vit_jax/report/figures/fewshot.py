"""Accuracy against counts, such as examples per class, with deviations."""

import math
from collections.abc import Mapping

from vit_jax.report.figures import scatter, svg
from vit_jax.report.measures import Cell


def draw(
  rows: Mapping[str, Mapping[str, Cell]], *, title: str, counts: str
) -> svg.Markup | None:
  """Draws one line per row over its columns' counts; None without values.

  Args:
    rows: Row -> column title -> cell; columns without a count are left out.
    title: Subject of the figure, for its text alternative.
    counts: Name of the counts.
  """
  clouds, words = [], []
  for name, cells in rows.items():
    counted = [cell for cell in cells.values() if cell.column.count is not None]
    counted.sort(key=lambda cell: cell.column.count)
    if counted:
      texts = (f"{cell.column.count}: {cell.text}%" for cell in counted)
      words.append(f"{name}: {', '.join(texts)}")
    points = tuple(
      scatter.Point(
        cell.column.count,
        cell.mean,
        f"{name}, {cell.column.title}: {cell.text}%",
        cell.std,
      )
      for cell in counted
      if math.isfinite(cell.mean)
    )
    clouds.append(scatter.Cloud(name, measured=points, is_joined=True))
  return scatter.draw(
    clouds,
    unit="accuracy",
    x_label=counts,
    label=f"{title} by {counts}. {'; '.join(words)}.",
    counted=True,
  )
