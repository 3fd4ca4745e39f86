"""Principal components of a network's first filters."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, UInt8

from vit_jax.report import formatting
from vit_jax.report.figures import sheet
from vit_jax.report.inspection.figure import Figure

# Components side by side.
_BESIDE = 7


def draw(
  components: Float[np.ndarray, "k y x c"],
  shares: Float[np.ndarray, " k"],
  num_filters: int,
) -> Figure:
  """Draws figure 7, left: the components of the first filters."""
  rows = sheet.bands({"": pixels(components)}, beside=_BESIDE)
  height, width = components.shape[1:3]
  caption = (
    f"The first {len(components)} principal components of the {num_filters:,}"
    f" filters of {height} × {width} pixels that meet the image, in"
    f" order; they hold {formatting.percent(float(shares.sum()), 1)} of the"
    " filters' variance. Each is scaled to its largest weight, grey is 0, and"
    " its sign is free."
  )
  canvas = sheet.draw(rows, side=52.0, gap=6.0)
  numbers = {"filters": components, "filters_variance_shares": shares}
  title = "Filters of the first layer"
  return Figure("filters", title, caption, canvas, numbers)


def pixels(
  components: Float[np.ndarray, "*b y x c"],
) -> UInt8[np.ndarray, "*b y x 3"]:
  """Converts weights to colours: 0 is grey, a component's maximum is full."""
  largest = np.abs(components).max(axis=(-3, -2, -1), keepdims=True)
  scaled = components / np.where(largest > 0, largest, 1)
  pixels = np.rint((scaled + 1) * 127.5).astype(np.uint8)
  return np.broadcast_to(pixels, (*pixels.shape[:-1], 3))


def over_training(
  steps: Sequence[int], components: Sequence[Float[np.ndarray, "k y x c"]]
) -> Figure:
  """Draws the first components of the filters, a row for each step."""
  shown = min(_BESIDE, min(len(found) for found in components))
  rows = {
    f"{step:,}": pixels(found[:shown])
    for step, found in zip(steps, components, strict=True)
  }
  canvas = sheet.draw(
    sheet.grid(rows, titles=[str(k + 1) for k in range(shown)]),
    side=52.0,
    gap=6.0,
    row_label="step",
    column_label="component",
  )
  caption = (
    f"The first {shown} principal components of the filters after so many"
    " steps. Their order and sign may change from step to step."
  )
  numbers = {
    "training_steps": np.array(steps),
    "training_filters": np.stack(components),
  }
  title = "Filters over training"
  return Figure("training_filters", title, caption, canvas, numbers)
