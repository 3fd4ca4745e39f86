"""Intersection over union of classes, from counts of pixels."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, UInt8

from vit_jax.data.segmentation.mask_files import IGNORED


def counts(
  predicted: Int[Array, "b h w"],
  label: UInt8[Array, "b h w"],
  num_classes: int,
) -> Int[Array, "3 classes"]:
  """Counts pixels of each class: correctly predicted, labelled, predicted.

  Pixels without a label are ignored, regardless of their prediction.
  """
  classes = jnp.arange(num_classes).reshape(1, 1, 1, -1)
  is_labelled = label != IGNORED
  labelled = (label[..., None] == classes) & is_labelled[..., None]
  guessed = (predicted[..., None] == classes) & is_labelled[..., None]
  # Compared and summed in one pass, without an array of pixels x classes.
  return jnp.stack(
    [one.sum(axis=(0, 1, 2)) for one in (labelled & guessed, labelled, guessed)]
  )


def measure(pixels: Int[np.ndarray, "3 classes"]) -> dict[str, float]:
  """Computes metrics from the counts of a whole split, in float64.

  Returns:
    `miou`, the mean over classes of the intersection of predicted and labelled
    pixels over their union, where classes that are neither predicted nor
    labelled are left out; `pixel_accuracy`, the fraction of correct pixels; and
    `class_accuracy`, that fraction of each class's labelled pixels, averaged
    over the labelled classes.
  """
  right, labelled, predicted = pixels.astype(np.float64)
  union = labelled + predicted - right
  occurs, is_there = union > 0, labelled > 0
  return {
    "miou": float((right[occurs] / union[occurs]).mean()),
    "pixel_accuracy": float(right.sum() / labelled.sum()),
    "class_accuracy": float((right[is_there] / labelled[is_there]).mean()),
  }
