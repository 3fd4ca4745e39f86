"""Text embeddings from a checkpoint, outside of a run."""

from collections.abc import Sequence

import jax
import numpy as np
from jaxtyping import Float

from vit_jax.models import build as models_build
from vit_jax.pretrained.inference import Inference
from vit_jax.tokenization.tokenizer import Tokenizer

_BATCH_SIZE = 64


def embed(
  use: Inference, tokenizer: Tokenizer, texts: Sequence[str]
) -> Float[np.ndarray, "n e"]:
  """Computes unit-length embeddings, in batches of one size.

  Args:
    use: A checkpoint with a text tower.
    tokenizer: Tokenizer of the checkpoint.
    texts: One or more texts.
  """
  network = models_build.create(use.weights.model, num_classes=None)
  compute = jax.jit(
    lambda params, text: network.apply({"params": params}, text=text)
  )
  size = min(_BATCH_SIZE, len(texts))
  params = jax.device_put(use.weights.params)
  found = []
  for start in range(0, len(texts), size):
    tokens = tokenizer(texts[start : start + size])
    filled = np.pad(tokens, ((0, size - len(tokens)), (0, 0)))
    rows = jax.device_get(compute(params, filled)["text_embedding"])
    found.append(rows[: len(tokens)])
  return np.concatenate(found)
