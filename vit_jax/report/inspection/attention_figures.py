"""Pictures of attention: distances, rollout and maps of heads."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, UInt8

from vit_jax.report import formatting
from vit_jax.report.figures import by_layer, colours, raster, sheet
from vit_jax.report.figures.canvas import Canvas
from vit_jax.report.inspection import overlay
from vit_jax.report.inspection.figure import Figure

_SHEET_WIDTH = 620.0


def distance(
  distances: Float[np.ndarray, "images depth heads"],
  uniform: float,
  image_size: int,
) -> Figure:
  """Draws figure 7, right: distances by layer, a dot for each head."""
  mean = distances.mean(axis=0)
  depth, num_heads = mean.shape
  layers = np.arange(1, depth + 1, dtype=float)
  series = [
    _uniform_line(uniform),
    by_layer.Series(
      "one head",
      np.repeat(layers, num_heads),
      mean.ravel().astype(float),
      colours.series(1)[0],
      "dots",
    ),
    by_layer.Series(
      "mean of heads", layers, mean.mean(axis=1).astype(float), colours.ACCENT
    ),
  ]
  caption = (
    "Mean distance between a patch and those it attends to, weighted by"
    f" attention, in pixels of images of {image_size} × {image_size}; over"
    f" all patches of {formatting.counted(len(distances), 'image')}. A cls"
    " token has no place and is left out. Dashes: attention that is the same"
    " everywhere."
  )
  return Figure(
    "attention_distance",
    "Attention distance by layer and head",
    caption,
    _layers_chart(series),
    {
      "attention_distance": distances,
      "attention_distance_if_uniform": np.array(uniform),
    },
  )


def rollout(
  images: Sequence[UInt8[np.ndarray, "h w 3"]],
  maps: Float[np.ndarray, "n rows columns"],
) -> Figure:
  """Draws figure 6: images, their attention rollout, and both combined."""
  heat = colours.sequential(overlay.relative(maps))
  masked = [overlay.mask(*pair) for pair in zip(images, maps, strict=True)]
  canvas = sheet.draw(
    sheet.bands({"image": images, "rollout": list(heat), "both": masked}),
    side=96.0,
    bar=_relative_bar(),
  )
  caption = (
    "From which patches the feature of an image comes, by attention rollout:"
    " the maps of a layer averaged over heads, half of a token left to itself,"
    " multiplied through all layers. Each map is relative to its largest"
    " value; below, the image is darkened by it."
  )
  numbers = {"attention_rollout": maps}
  title = "Attention rollout"
  return Figure("attention_rollout", title, caption, canvas, numbers)


def heads(
  maps: Float[np.ndarray, "depth heads rows columns"], number: int, asking: str
) -> Figure:
  """Draws each head's attention to patches by layer, for image `number`.

  `asking` names the tokens that attend.
  """
  depth, num_heads = maps.shape[:2]
  pixels = colours.sequential(overlay.relative(maps))
  canvas = sheet.draw(
    sheet.grid(
      {str(i + 1): row for i, row in enumerate(pixels)},
      titles=[str(j + 1) for j in range(num_heads)],
    ),
    side=min(64.0, max(24.0, _SHEET_WIDTH / num_heads - 3)),
    gap=3.0,
    row_label="layer",
    column_label="head",
    bar=_relative_bar(),
  )
  layers = formatting.counted(depth, "layer")
  heads = formatting.counted(num_heads, "head")
  caption = (
    f"Where attention of {asking} goes in image {number}, in {layers} of"
    f" {heads}. Each map is relative to its own largest value, so that a head"
    " that looks at no patch much is seen too."
  )
  name = f"attention_heads_{number:02d}"
  title = f"Attention of every head, image {number}"
  return Figure(name, title, caption, canvas, {name: maps})


def distance_over_training(
  steps: Sequence[int],
  distances: Float[np.ndarray, "steps depth"],
  uniform: float,
  num_images: int,
) -> Figure:
  """Draws attention distance by layer, a line for each step."""
  layers = np.arange(1, distances.shape[1] + 1, dtype=float)
  series = [_uniform_line(uniform), *by_layer.by_step(steps, layers, distances)]
  caption = (
    "Mean attention distance of a layer's heads after so many steps, over"
    f" {formatting.counted(num_images, 'image')}."
  )
  return Figure(
    "training_attention_distance",
    "Attention distance over training",
    caption,
    _layers_chart(series, from_zero=False),
    {"training_attention_distance": distances},
  )


def rollout_over_training(
  images: Sequence[UInt8[np.ndarray, "h w 3"]],
  steps: Sequence[int],
  maps: Float[np.ndarray, "steps n rows columns"],
) -> Figure:
  """Draws the rollout of a few images, a column for each step."""
  heat = colours.sequential(overlay.relative(maps))
  titles = ["image", *(f"{step:,}" for step in steps)]
  rows = {
    str(number + 1): [image, *heat[:, number]]
    for number, image in enumerate(images)
  }
  canvas = sheet.draw(
    sheet.grid(rows, titles),
    side=min(96.0, max(44.0, _SHEET_WIDTH / len(titles) - 4)),
    row_label="image",
    column_label="step",
    bar=_relative_bar(),
  )
  caption = (
    "Attention rollout after so many steps, each map relative to its largest"
    " value."
  )
  numbers = {"training_rollout": maps}
  title = "Attention rollout over training"
  return Figure("training_rollout", title, caption, canvas, numbers)


def _layers_chart(
  series: Sequence[by_layer.Series], *, from_zero: bool = True
) -> Canvas:
  return raster.paint(
    by_layer.draw(
      series,
      x_label="network depth (layer)",
      y_label="mean attention distance (pixels)",
      from_zero=from_zero,
    )
  )


def _uniform_line(uniform: float) -> by_layer.Series:
  ends = np.array([1.0, 1.0])
  return by_layer.Series(
    "uniform attention", ends, np.full(2, uniform), colours.MUTED, "dashes"
  )


def _relative_bar() -> sheet.ColourBar:
  return sheet.ColourBar(
    colours.sequential,
    0.0,
    1.0,
    [(0.0, "0"), (1.0, "1")],
    "share of the largest",
  )
