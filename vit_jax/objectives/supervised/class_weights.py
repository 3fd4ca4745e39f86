"""Weights of the classes in the loss: `config.objective.class_weights`."""

import numpy as np

from vit_jax.config import schema
from vit_jax.data import balanced_order
from vit_jax.data.facts import DataFacts
from vit_jax.errors import UserError

_KEY = "config.objective.class_weights"


def check(objective: schema.Supervised, sampling: str) -> None:
  """Raises UserError for weights with a loss that does not support them.

  Also raises for balanced weights if classes are already drawn equally often.
  """
  if objective.class_weights is not None and objective.loss != "softmax":
    raise UserError(
      f"{_KEY} = {objective.class_weights!r} weighs images by their class, and"
      f" with config.objective.loss = {objective.loss!r} an image may be of"
      " several; use loss 'softmax', or no weights."
    )
  if objective.class_weights == sampling == "balanced":
    raise UserError(
      f"{_KEY} = 'balanced' makes all classes weigh alike, as"
      " config.train.sampling = 'balanced' does already; leave one of the two"
      " unset."
    )


def of_data(
  objective: schema.Supervised, facts: DataFacts
) -> np.ndarray | None:
  """Returns weights, float32 [classes], or None if all classes weigh the same.

  Balanced weights are n / (k n_c) for n images in k non-empty classes, n_c of
  them in class c, so that their mean over the images is one (scikit-learn's
  `class_weight="balanced"`). If the data are missing, no training takes place,
  and there are no weights.

  Raises:
    UserError: The number of images per class is not known, images have several
      labels, or the number of weights is not that of the classes.
  """
  weights, num_classes = objective.class_weights, facts.num_classes
  if weights is None:
    return None
  if facts.features.max_labels > 1:
    raise UserError(
      f"{_KEY} = {weights!r} weighs images by their class, and these have up to"
      f" {facts.features.max_labels}; leave it unset."
    )
  if weights != "balanced":
    if len(weights) != num_classes:
      raise UserError(
        f"{_KEY} has {len(weights)} weights, and there are {num_classes}"
        " classes; give one for each, in the order of classes.json."
      )
    return np.array(weights, np.float32)
  counts = facts.label_counts
  if counts is None and not facts.fingerprint:
    return None
  if counts is None:
    raise UserError(
      f'{_KEY} = "balanced" requires the number of images of each class, which'
      f" {balanced_order.KNOWING} tell; give a weight for each class."
    )
  present = np.zeros(num_classes)
  present[: len(counts)] = counts
  num_present = np.count_nonzero(present)
  balanced = counts.sum() / (num_present * np.maximum(present, 1))
  return np.where(present > 0, balanced, 0).astype(np.float32)
