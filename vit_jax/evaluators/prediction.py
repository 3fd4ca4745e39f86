"""Class probabilities for batches of images."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
from jaxtyping import Array, Float, UInt8

from vit_jax.models import build as models_build
from vit_jax.objectives import losses
from vit_jax.pretrained.inference import Inference

if TYPE_CHECKING:
  from vit_jax.evaluators.words import Words


def function(
  use: Inference, words: "Words | None" = None
) -> Callable[[Any, Any], Any]:
  """Returns a function (parameters, images) -> probabilities.

  Args:
    use: Checkpoint to apply to images, uint8 [b, h, w, 3]; the probabilities
      are float32 [b, classes].
    words: Classes given as words; None for the classes of the checkpoint's
      head.
  """
  return _by_head(use) if words is None else _by_words(use, words)


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
