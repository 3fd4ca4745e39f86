"""Similarity of position embeddings."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from vit_jax.report.figures import by_layer, colours, raster, sheet
from vit_jax.report.inspection.figure import Figure

# Positions along a side of the mosaic.
_MOSAIC = 14


def draw(
  similarity: Float[np.ndarray, "rows columns rows columns"],
) -> Figure:
  """Draws figure 7, centre: a map for each position of the patch grid."""
  rows, columns = similarity.shape[:2]
  down, across = _spread(rows, _MOSAIC), _spread(columns, _MOSAIC)
  pixels = colours.diverging(similarity)
  ticks = [(-1.0, "-1"), (0.0, "0"), (1.0, "1")]
  canvas = sheet.draw(
    sheet.grid(
      {str(i + 1): pixels[i, across] for i in down},
      titles=[str(j + 1) for j in across],
    ),
    side=min(72.0, 500.0 / len(across) - 2),
    gap=2.0 if len(across) > 8 else 6.0,
    row_label="patch row",
    column_label="patch column",
    bar=sheet.ColourBar(
      colours.diverging, -1.0, 1.0, ticks, "cosine similarity"
    ),
  )
  shown = f"{len(down)} × {len(across)}"
  which = "every patch"
  if (len(down), len(across)) != (rows, columns):
    which = f"{shown} of the {rows} × {columns} patches"
  caption = (
    "Cosine similarity between the position embedding of a patch and those of"
    f" all patches: a map of {rows} × {columns} values for {which},"
    " at its row and column."
  )
  title = "Similarity of position embeddings"
  numbers = {"position_similarity": similarity}
  return Figure("position_similarity", title, caption, canvas, numbers)


def over_training(
  steps: Sequence[int], by_distance: Float[np.ndarray, "steps k"]
) -> Figure:
  """Draws similarity of positions by distance, a line for each step."""
  apart = np.arange(by_distance.shape[1], dtype=float)
  chart = by_layer.draw(
    by_layer.by_step(steps, apart, by_distance),
    x_label="distance (patches)",
    y_label="mean cosine similarity",
  )
  caption = (
    "Mean cosine similarity of two patches' position embeddings by their"
    " distance, rounded to whole patches, after so many steps."
  )
  return Figure(
    "training_position_similarity",
    "Position embeddings over training",
    caption,
    raster.paint(chart),
    {"training_position_similarity": by_distance},
  )


def _spread(count: int, most: int) -> list[int]:
  """Returns at most `most` evenly spaced numbers below `count`."""
  return (
    np.unique(np.rint(np.linspace(0, count - 1, min(count, most))))
    .astype(int)
    .tolist()
  )
