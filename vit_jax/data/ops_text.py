"""Preprocessing ops on captions, in NumPy, for many examples at once."""

from collections.abc import Callable
from typing import Annotated

import numpy as np
import pydantic

from vit_jax.data.registry import register

# Texts -> int32 [n, length].
Tokenizer = Callable[[list[str]], np.ndarray]


@register("text")
def tokenize(
  captions: np.ndarray,
  draws: np.ndarray,
  tokenizer: Tokenizer,
  /,
  length: Annotated[int, pydantic.Field(gt=0)] | None = None,
) -> np.ndarray:
  """Draws one caption for each example and converts it to tokens.

  Args:
    captions: Object [n], a tuple of one or more captions for each example.
    draws: uint64 [n], a random number for each example.
    tokenizer: Function that computes token ids, int32 [n, length].
    length: Number of tokens per text, padded or truncated; None for that of the
      model.
  """
  del length  # The tokenizer already has it.
  counts = np.array([len(texts) for texts in captions], np.uint64)
  chosen = (draws % counts).tolist()
  return tokenizer(
    [texts[i] for texts, i in zip(captions, chosen, strict=True)]
  )
