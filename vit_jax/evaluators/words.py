"""A zero-shot classifier built from texts."""

import dataclasses
import os
from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Float, UInt8

from vit_jax.evaluators import text_rows, zeroshot
from vit_jax.models import build as models_build
from vit_jax.objectives import losses
from vit_jax.pretrained import text_tokenizer
from vit_jax.pretrained.inference import Inference
from vit_jax.prompts import class_names, ensemble, templates
from vit_jax.tokenization.tokenizer import Tokenizer


@dataclasses.dataclass(frozen=True)
class Words:
  """Class names with their prompts, and the tokenizer for them.

  Attributes:
    names: Name of each class.
    prompts: The prompts of each class.
    tokenizer: Tokenizer of the checkpoint.
  """

  names: Sequence[str]
  prompts: Sequence[Sequence[str]]
  tokenizer: Tokenizer


def read(
  use: Inference,
  checkpoint: str,
  classes: str,
  *,
  template: Sequence[str] = ("{}",),
  tokenizer: str | None = None,
) -> Words:
  """Reads the words for the classes; warns of some with the same tokens.

  Args:
    use: The checkpoint.
    checkpoint: Path of the checkpoint, for messages and its tokenizer.
    classes: Names separated by commas, a file with one per line, or one of
      `class_names.NAMED`.
    template: Sources of templates, as for `templates.read`.
    tokenizer: Path of the tokenizer; None for that of the checkpoint.

  Raises:
    UserError: The checkpoint has no text tower or no tokenizer, or a class has
      no name.
  """
  loaded = text_tokenizer.read(use, checkpoint, tokenizer)
  if classes in class_names.NAMED or os.path.isfile(classes):
    names = class_names.read(classes, key="--classes")
  else:
    names = class_names.of(classes.split(","), key="--classes")
  sentences = templates.read(template, key="--templates")
  prompts = ensemble.prompts(names, sentences, style="clip", key="--classes")
  zeroshot.warn_of_same_tokens(prompts, loaded, "--classes")
  return Words([one[0] for one in names], prompts, loaded)


def activation(use: Inference) -> str:
  """Returns the name of the function from logits to probabilities.

  A network with a bias was trained with a sigmoid.
  """
  return "softmax" if use.weights.model.bias_init is None else "sigmoid"


def classifier(use: Inference, words: Words):
  """Returns a function (parameters, images) -> probabilities [b, classes].

  The probabilities are float32. The embeddings of the classes are computed
  once, here.
  """
  network = models_build.create(use.weights.model, num_classes=None)
  classes = zeroshot.class_embeddings(
    words.prompts, lambda texts: text_rows.embed(use, words.tokenizer, texts)
  )

  def probabilities(
    params, images: UInt8[Array, "b h w c"]
  ) -> Float[Array, "b classes"]:
    found = network.apply({"params": params}, images)["image_embedding"]
    logits = jnp.matmul(found, classes.T, precision="highest")
    logits *= jnp.exp(params["logit_scale"])
    if "logit_bias" in params:
      logits += params["logit_bias"]
    return losses.PROBABILITIES[activation(use)](logits)

  return probabilities
