"""An evaluator's section: images, confusions and calibration."""

import base64
import dataclasses
import struct

from vit_jax.report import formatting, predictions
from vit_jax.report.figures import calibration, confusion, svg
from vit_jax.report.run import Evaluation, Example

SMALL = 48  # Images with a shorter side are enlarged without smoothing.


@dataclasses.dataclass(frozen=True)
class Picture:
  """A test image prepared for display."""

  source: str | None  # Data URI.
  pixelated: bool
  correct: bool
  prediction: str
  truth: str
  probability: str
  name: str
  alt: str


@dataclasses.dataclass(frozen=True)
class Gallery:
  """The section of a page on one classification evaluator."""

  name: str
  step: int
  outcome: str | None
  samples: list[Picture]
  mistakes: list[Picture]
  has_names: bool  # Older records have neither names nor the table of mistakes.
  confusion: svg.Markup | None
  confusion_width: float
  pairs: list[predictions.Pair]
  calibration: svg.Markup | None
  calibration_error: str | None


def gallery(evaluation: Evaluation) -> Gallery:
  """Builds the pictures and figures of the evaluator's latest step."""
  pictures = [(e.kind, _picture(evaluation, e)) for e in evaluation.examples]
  figure, width = _confusion(evaluation)
  calibrated, error = _calibration(evaluation)
  return Gallery(
    name=evaluation.name,
    step=evaluation.step,
    outcome=_outcome(evaluation),
    samples=[p for kind, p in pictures if kind == "sample"],
    mistakes=[p for kind, p in pictures if kind == "mistake"],
    has_names=any(example.name for example in evaluation.examples),
    confusion=figure,
    confusion_width=width,
    pairs=[] if figure else predictions.confused_pairs(evaluation),
    calibration=calibrated,
    calibration_error=error,
  )


def _outcome(evaluation: Evaluation) -> str | None:
  found = evaluation.predictions
  if found is None or not len(found):
    return None
  right = int(found.correct.sum())
  text = (
    f"{right:,} of {len(found):,} images right"
    f" ({formatting.percent(right / len(found))})"
  )
  by_class = predictions.mean_class_accuracy(evaluation)
  if by_class is not None:
    text += f"; mean over the classes {formatting.percent(by_class)}"
  if commonest := predictions.commonest_class(evaluation):
    name, share = commonest
    text += (
      f". Always answering {name} would be right for"
      f" {formatting.percent(share)}"
    )
  return text


def _picture(evaluation: Evaluation, example: Example) -> Picture:
  prediction = evaluation.class_name(example.prediction)
  between = " and " if example.has_all_labels else " or "
  truth = between.join(evaluation.class_name(k) for k in example.labels)
  truth = truth or "no label"
  probability = formatting.percent(example.probability, 1)
  verdict = "correct" if example.correct else f"wrong, the truth is {truth}"
  source, pixelated = embedded(example.image)
  return Picture(
    source=source,
    pixelated=pixelated,
    correct=example.correct,
    prediction=prediction,
    truth=truth,
    probability=probability,
    name=shown_name(example.name),
    alt=(
      f"Test image {example.id}, predicted {prediction} with"
      f" {probability}: {verdict}."
    ),
  )


def shown_name(name: str) -> str:
  """Returns a file's name; '' for 'DATASET (record 7 of FILE)'."""
  return "" if name.endswith(")") else name


def embedded(image: bytes | None) -> tuple[str | None, bool]:
  """Returns a PNG file's data URI, and whether it is shown pixelated."""
  if image is None:
    return None, False
  source = f"data:image/png;base64,{base64.b64encode(image).decode()}"
  return source, max(_png_size(image)) <= SMALL


def _png_size(data: bytes) -> tuple[int, int]:
  """Reads width and height from the header; (0, 0) for a truncated file."""
  return struct.unpack(">II", data[16:24]) if len(data) >= 24 else (0, 0)


def _confusion(evaluation: Evaluation) -> tuple[svg.Markup | None, float]:
  counts = evaluation.confusion
  if counts is None or not 1 < len(counts) <= confusion.LARGEST:
    return None, 0.0
  names = [evaluation.class_name(k) for k in range(len(counts))]
  pairs = predictions.confused_pairs(evaluation, limit=3)
  label = f"Confusion matrix of {len(counts)} classes on {evaluation.name}."
  if pairs:
    worst = ", ".join(
      f"{p.truth} taken for {p.prediction} ({p.num_examples})" for p in pairs
    )
    label += f" Commonest confusions: {worst}."
  return confusion.draw(counts, names, label=label)


def _calibration(
  evaluation: Evaluation,
) -> tuple[svg.Markup | None, str | None]:
  found = evaluation.predictions
  bins = predictions.calibration(found) if found is not None else []
  if len(bins) < 2:
    return None, None
  error = formatting.percent(predictions.calibration_error(bins))
  label = (
    f"Accuracy against confidence on {evaluation.name}, in {len(bins)} bins;"
    f" expected calibration error {error}."
  )
  return calibration.draw(bins, label=label), error
