"""The pictures of one network, each from its arrays."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, UInt8

from vit_jax.report import formatting
from vit_jax.report.inspection import chart, colours, overlay, sheet
from vit_jax.report.inspection.canvas import Canvas
from vit_jax.report.inspection.figure import Figure

# Places of the mosaic along a side, and pictures side by side.
_MOSAIC, _BESIDE = 14, 6
_SHEET_WIDTH = 620.0
_FILTERS_BESIDE = 7


def filters(
  components: Float[np.ndarray, "k y x c"],
  shares: Float[np.ndarray, " k"],
  num_filters: int,
) -> Figure:
  """Figure 7, left: the components of the first filters."""
  pictures = list(filter_pixels(components))
  rows = [
    sheet.Row(
      pictures[start : start + _FILTERS_BESIDE],
      titles=[
        str(n + 1)
        for n in range(start, min(start + _FILTERS_BESIDE, len(pictures)))
      ],
    )
    for start in range(0, len(pictures), _FILTERS_BESIDE)
  ]
  height, width = components.shape[1:3]
  caption = (
    f"The first {len(pictures)} principal components of the {num_filters:,}"
    f" filters of {height} × {width} pixels that meet the image, in"
    f" order; they hold {formatting.percent(float(shares.sum()), 1)} of the"
    " filters' variance. Each is scaled to its largest weight, grey is 0, and"
    " its sign is free."
  )
  canvas = sheet.draw(rows, side=52.0, gap=6.0)
  numbers = {"filters": components, "filters_variance_shares": shares}
  title = "Filters of the first layer"
  return Figure("filters", title, caption, canvas, numbers)


def filter_pixels(
  components: Float[np.ndarray, "*b y x c"],
) -> UInt8[np.ndarray, "*b y x 3"]:
  """Weights as colours: 0 is grey, the largest of a component is full."""
  largest = np.abs(components).max(axis=(-3, -2, -1), keepdims=True)
  scaled = components / np.where(largest > 0, largest, 1)
  pixels = np.rint((scaled + 1) * 127.5).astype(np.uint8)
  return np.broadcast_to(pixels, (*pixels.shape[:-1], 3))


def position_similarity(
  similarity: Float[np.ndarray, "rows columns rows columns"],
) -> Figure:
  """Figure 7, centre: a map for each place of the patch grid."""
  rows, columns = similarity.shape[:2]
  down, across = _spread(rows, _MOSAIC), _spread(columns, _MOSAIC)
  pixels = colours.diverging(similarity)
  canvas = sheet.draw(
    [
      sheet.Row(
        [pixels[i, j] for j in across],
        name=str(i + 1),
        titles=[str(j + 1) for j in across] if i == down[0] else (),
      )
      for i in down
    ],
    side=min(72.0, 500.0 / len(across) - 2),
    gap=2.0 if len(across) > 8 else 6.0,
    row_label="patch row",
    column_label="patch column",
    bar=_similarity_bar(),
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


def attention_distance(
  distances: Float[np.ndarray, "images depth heads"],
  uniform: float,
  image_size: int,
) -> Figure:
  """Figure 7, right: distances by layer, a dot for each head."""
  mean = distances.mean(axis=0)
  depth, num_heads = mean.shape
  layers = np.arange(1, depth + 1, dtype=float)
  series = [
    _uniform_line(uniform),
    chart.Series(
      "one head",
      np.repeat(layers, num_heads),
      mean.ravel().astype(float),
      colours.series(1)[0],
      "dots",
    ),
    chart.Series(
      "mean of heads", layers, mean.mean(axis=1).astype(float), colours.ACCENT
    ),
  ]
  caption = (
    "Mean distance between a patch and those it attends to, weighted by"
    f" attention, in pixels of images of {image_size} × {image_size}; over"
    f" all patches of {_images(len(distances))}. The cls token has no place"
    " and is left out. Dashes: attention that is the same everywhere."
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
  """Figure 6: images, what their features are made of, and both."""
  heat = colours.sequential(overlay.relative(maps))
  masked = [overlay.mask(*pair) for pair in zip(images, maps, strict=True)]
  canvas = sheet.draw(
    _bands({"image": images, "rollout": list(heat), "both": masked}),
    side=96.0,
    bar=_relative_bar("share of the largest"),
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
  """What each head of each layer attends to, for one image.

  Args:
    maps: attention to patches.
    number: of the image.
    asking: whose attention it is.
  """
  depth, num_heads = maps.shape[:2]
  pixels = colours.sequential(overlay.relative(maps))
  canvas = sheet.draw(
    [
      sheet.Row(
        list(row),
        name=str(i + 1),
        titles=[str(j + 1) for j in range(num_heads)] if i == 0 else (),
      )
      for i, row in enumerate(pixels)
    ],
    side=min(64.0, max(24.0, _SHEET_WIDTH / num_heads - 3)),
    gap=3.0,
    row_label="layer",
    column_label="head",
    bar=_relative_bar("share of the largest"),
  )
  caption = (
    f"Where attention of {asking} goes in image {number}, in {depth} layers of"
    f" {num_heads} heads. Each map is relative to its own largest value, so"
    " that a head that looks at no patch much is seen too."
  )
  name = f"attention_heads_{number:02d}"
  title = f"Attention of every head, image {number}"
  return Figure(name, title, caption, canvas, {name: maps})


def patch_colours(
  images: Sequence[UInt8[np.ndarray, "h w 3"]],
  pixels: UInt8[np.ndarray, "n rows columns 3"],
  shares: Float[np.ndarray, " k"],
  num_images: int,
) -> Figure:
  """The features of patches, their components as red, green and blue."""
  canvas = sheet.draw(
    _bands({"image": images, "features": list(pixels)}), side=96.0
  )
  caption = (
    "The first three principal components of the last layer's patch features"
    f" as red, green and blue, over all patches of {_images(num_images)}"
    " together, so that a colour means the same in all. They hold"
    f" {', '.join(formatting.percent(float(s), 1) for s in shares)} of the"
    " variance; a colour reaches from two standard deviations below the mean"
    " to two above."
  )
  numbers = {"patch_features": pixels, "patch_features_variance_shares": shares}
  title = "Features of patches"
  return Figure("patch_features", title, caption, canvas, numbers)


def distance_over_training(
  steps: Sequence[int],
  distances: Float[np.ndarray, "steps depth"],
  uniform: float,
  num_images: int,
) -> Figure:
  """Attention distance by layer, a line for each step."""
  layers = np.arange(1, distances.shape[1] + 1, dtype=float)
  series = [_uniform_line(uniform)] + [
    chart.Series(f"step {step:,}", layers, row.astype(float), colour)
    for step, row, colour in zip(
      steps, distances, colours.series(len(steps)), strict=True
    )
  ]
  caption = (
    "Mean attention distance of a layer's heads after so many steps, over"
    f" {_images(num_images)}."
  )
  return Figure(
    "training_attention_distance",
    "Attention distance over training",
    caption,
    _layers_chart(series, from_zero=False),
    {"training_attention_distance": distances},
  )


def similarity_over_training(
  steps: Sequence[int], by_distance: Float[np.ndarray, "steps k"]
) -> Figure:
  """Similarity of position embeddings by distance, a line for each step."""
  apart = np.arange(by_distance.shape[1], dtype=float)
  canvas = chart.draw(
    [
      chart.Series(f"step {step:,}", apart, row.astype(float), colour)
      for step, row, colour in zip(
        steps, by_distance, colours.series(len(steps)), strict=True
      )
    ],
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
    canvas,
    {"training_position_similarity": by_distance},
  )


def filters_over_training(
  steps: Sequence[int], components: Sequence[Float[np.ndarray, "k y x c"]]
) -> Figure:
  """The first components of the filters, a row for each step."""
  shown = min(_FILTERS_BESIDE, min(len(found) for found in components))
  titles = [str(k + 1) for k in range(shown)]
  rows = [
    sheet.Row(
      list(filter_pixels(found[:shown])),
      name=f"{step:,}",
      titles=titles if i == 0 else (),
    )
    for i, (step, found) in enumerate(zip(steps, components, strict=True))
  ]
  canvas = sheet.draw(
    rows, side=52.0, gap=6.0, row_label="step", column_label="component"
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


def rollout_over_training(
  images: Sequence[UInt8[np.ndarray, "h w 3"]],
  steps: Sequence[int],
  maps: Float[np.ndarray, "steps n rows columns"],
) -> Figure:
  """The rollout of a few images, a column for each step."""
  heat = colours.sequential(overlay.relative(maps))
  titles = ["image", *(f"{step:,}" for step in steps)]
  rows = [
    sheet.Row(
      [image, *heat[:, number]],
      name=str(number + 1),
      titles=titles if number == 0 else (),
    )
    for number, image in enumerate(images)
  ]
  canvas = sheet.draw(
    rows,
    side=min(96.0, max(44.0, _SHEET_WIDTH / len(titles) - 4)),
    row_label="image",
    column_label="step",
    bar=_relative_bar("share of the largest"),
  )
  caption = (
    "Attention rollout after so many steps, each map relative to its largest"
    " value."
  )
  numbers = {"training_rollout": maps}
  title = "Attention rollout over training"
  return Figure("training_rollout", title, caption, canvas, numbers)


def _layers_chart(
  series: Sequence[chart.Series], *, from_zero: bool = True
) -> Canvas:
  return chart.draw(
    series,
    x_label="network depth (layer)",
    y_label="mean attention distance (pixels)",
    from_zero=from_zero,
  )


def _uniform_line(uniform: float) -> chart.Series:
  ends = np.array([1.0, 1.0])
  return chart.Series(
    "uniform attention", ends, np.full(2, uniform), colours.MUTED, "dashes"
  )


def _bands(named: dict[str, Sequence[np.ndarray]]) -> list[sheet.Row]:
  """Rows of each kind for a few images, then for the next few."""
  count = len(next(iter(named.values())))
  rows = []
  for start in range(0, count, _BESIDE):
    stop = min(start + _BESIDE, count)
    titles = [str(n + 1) for n in range(start, stop)]
    for name, pictures in named.items():
      rows.append(sheet.Row(pictures[start:stop], name=name, titles=titles))
      titles = []
  return rows


def _spread(count: int, most: int) -> list[int]:
  """At most so many of the numbers below `count`, evenly spaced."""
  return (
    np.unique(np.rint(np.linspace(0, count - 1, min(count, most))))
    .astype(int)
    .tolist()
  )


def _similarity_bar() -> sheet.ColourBar:
  ticks = [(-1.0, "-1"), (0.0, "0"), (1.0, "1")]
  return sheet.ColourBar(
    colours.diverging, -1.0, 1.0, ticks, "cosine similarity"
  )


def _relative_bar(label: str) -> sheet.ColourBar:
  return sheet.ColourBar(
    colours.sequential, 0.0, 1.0, [(0.0, "0"), (1.0, "1")], label
  )


def _images(count: int) -> str:
  return f"{count:,} image" + ("" if count == 1 else "s")
