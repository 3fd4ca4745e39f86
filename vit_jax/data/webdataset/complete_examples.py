"""Examples of tar files without an image, a caption, a class or a number."""

import numpy as np

from vit_jax.data.webdataset import tar_index


def has_texts(examples: np.ndarray) -> bool:
  """True if some examples have captions, usable or not.

  An unreadable file may contain a caption. It counts only if all examples have
  one, as otherwise a single file would require captions for all others.
  """
  number = tar_index.PROBLEMS.index
  problems = examples["text_problem"]
  is_bad = np.isin(
    problems, [number("caption that is no text"), number("empty caption")]
  )
  return bool(
    (examples["has_caption"] | is_bad).any()
    or (problems != number("no caption")).all()
  )


def is_labelled(examples: np.ndarray, *, numbers: bool) -> np.ndarray:
  """bool [n], True where examples have a class, or a number to predict."""
  return ~np.isnan(examples["number"]) if numbers else examples["label"] >= 0


def judged(
  examples: np.ndarray,
  *,
  has_labels: bool,
  has_texts: bool,
  numbers: bool,
  images_alone: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
  """Determines each example's problem, and if it can be used.

  Some of several captions may be usable.

  Args:
    examples: `tar_index.EXAMPLE` [n].
    has_labels, has_texts: True if every example must have them.
    numbers: True if labels are numbers to predict.
    images_alone: True if unusable labels are ignored too.
  """
  reasons = np.zeros(len(examples), np.uint8)
  is_usable = np.ones(len(examples), bool)
  if has_texts:
    reasons = examples["text_problem"].copy()
    is_usable &= examples["has_caption"]
  number = tar_index.PROBLEMS.index
  has_classes = not numbers and not images_alone
  is_odd_class = (examples["label"] == -2) & has_classes
  if has_labels:
    labelled = is_labelled(examples, numbers=numbers)
  else:
    labelled = (examples["label"] >= -1) | images_alone
  for wrong, reason in (
    (~labelled & (reasons == 0), "no number" if numbers else "no class"),
    (is_odd_class & (reasons == 0), tar_index.ODD_CLASS),
    (examples["image"] == 0, "no image"),
  ):
    reasons[wrong] = number(reason)
  is_usable &= labelled & (examples["image"] > 0)
  is_whole = examples["problem"] == 0
  reasons = np.where(is_whole, reasons, examples["problem"])
  is_usable &= is_whole
  return reasons, is_usable
