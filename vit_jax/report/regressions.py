"""A regression evaluator's section: predicted numbers and true ones."""

import dataclasses

import numpy as np

from vit_jax.report import formatting, gallery
from vit_jax.report.figures import predicted, svg
from vit_jax.report.run import Estimate, Regression

_MOST_FIGURES = 12


@dataclasses.dataclass(frozen=True)
class Row:
  """Errors of one number, and those of always predicting its mean."""

  name: str
  rmse: str
  mae: str
  r2: str
  mean: str
  mean_rmse: str
  mean_mae: str


@dataclasses.dataclass(frozen=True)
class Picture:
  """A test image with its numbers, prepared for display."""

  source: str | None  # Data URI.
  pixelated: bool
  lines: list[tuple[str, str, str]]  # Name, prediction, truth.
  name: str
  alt: str


@dataclasses.dataclass(frozen=True)
class Figure:
  """Predictions of one number against the truth."""

  name: str
  svg: svg.Markup
  caption: str


@dataclasses.dataclass(frozen=True)
class Section:
  """The section of a page on one regression evaluator."""

  name: str
  step: int
  num_examples: int
  rows: list[Row]
  figures: list[Figure]
  samples: list[Picture]
  mistakes: list[Picture]


def section(found: Regression) -> Section:
  """Builds the figures and pictures of the evaluator's latest step."""
  rows, figures = [], []
  for place, name in enumerate(found.numbers):
    truth, answer = found.labels[:, place], found.predictions[:, place]
    rows.append(_row(name, truth, answer))
    if place < _MOST_FIGURES:
      figures.extend(_figure(found, rows[-1], truth, answer))
  pictures = [(one.kind, _picture(found, one)) for one in found.examples]
  return Section(
    found.name,
    found.step,
    len(found.labels),
    rows,
    figures,
    samples=[picture for kind, picture in pictures if kind == "sample"],
    mistakes=[picture for kind, picture in pictures if kind == "mistake"],
  )


def _row(name: str, truth: np.ndarray, answer: np.ndarray) -> Row:
  error, from_mean = answer - truth, truth - truth.mean()
  square, variance = np.square(error).mean(), np.square(from_mean).mean()
  r2 = 1 - square / variance if variance > 0 else np.nan
  write = formatting.quantity
  return Row(
    name,
    rmse=write(float(np.sqrt(square))),
    mae=write(float(np.abs(error).mean())),
    r2=write(float(r2), 3),
    mean=write(float(truth.mean())),
    mean_rmse=write(float(np.sqrt(variance))),
    mean_mae=write(float(np.abs(from_mean).mean())),
  )


def _figure(
  found: Regression, row: Row, truth: np.ndarray, answer: np.ndarray
) -> list[Figure]:
  """Draws predictions against the truth; empty if there is nothing to draw."""
  label = (
    f"Predicted against true {row.name} on {found.name}: root mean squared"
    f" error {row.rmse}, R² {row.r2}."
  )
  drawn = predicted.draw(truth, answer, unit=row.name, label=label)
  if drawn is None:
    return []
  caption = (
    f"RMSE {row.rmse}, R² {row.r2}; dashes: predictions without an error."
  )
  if len(truth) > predicted.MOST_DOTS:
    caption += (
      f" {predicted.MOST_DOTS:,} of {len(truth):,} images, evenly spaced."
    )
  return [Figure(row.name, drawn, caption)]


def _picture(found: Regression, example: Estimate) -> Picture:
  lines = [
    (name, formatting.quantity(answer), formatting.quantity(truth))
    for name, answer, truth in zip(
      found.numbers, example.predictions, example.labels, strict=True
    )
  ]
  words = "; ".join(
    f"{name} {answer}, the truth is {truth}" for name, answer, truth in lines
  )
  source, pixelated = gallery.embedded(example.image)
  return Picture(
    source=source,
    pixelated=pixelated,
    lines=lines,
    name=gallery.shown_name(example.name),
    alt=f"Test image {example.id}: predicted {words}.",
  )
