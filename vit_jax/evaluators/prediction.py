"""The probabilities of classes for image files."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8

from vit_jax.evaluators import file_outputs
from vit_jax.models import build as models_build
from vit_jax.objectives import losses
from vit_jax.pretrained.inference import Inference

if TYPE_CHECKING:
  from vit_jax.data.image_files import ImageFile
  from vit_jax.evaluators.words import Words


def predict(
  use: Inference, paths: Sequence[str], words: "Words | None" = None
) -> Iterator[tuple["ImageFile", np.ndarray | None]]:
  """Classifies image files on all devices.

  Args:
    use: Checkpoint to apply.
    paths: Image files.
    words: Classes in words; None: those of the checkpoint's head.

  Returns:
    Each file in order, with its probabilities, float32 [num_classes], or None
    where `problem` says why it has no pixels.
  """
  size = file_outputs.batch_size(use.weights.model.image_size, len(paths))
  function = _by_head(use) if words is None else _by_words(use, words)
  return file_outputs.rows(use, paths, function, batch_size=size)


def _by_words(use: Inference, words: "Words"):
  from vit_jax.evaluators.words import classifier

  return classifier(use, words)


def _by_head(use: Inference):
  model = models_build.create(
    use.weights.model, num_classes=use.weights.model.num_classes
  )
  activation = losses.PROBABILITIES[use.weights.activation]

  def probabilities(
    params, images: UInt8[Array, "b h w c"]
  ) -> Float[Array, "b classes"]:
    logits = model.apply({"params": params}, images)
    return activation(logits.astype(jnp.float32))

  return probabilities
