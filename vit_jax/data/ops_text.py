"""Preprocessing ops on captions: NumPy, on those of many examples at once."""

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
  """Draws one caption of each example and turns it into tokens.

  Args:
    captions: Object [n], a tuple of one or more captions for each example.
    draws: uint64 [n], a random number for each.
    tokenizer: Makes the ids of tokens, int32 [n, length].
    length: Tokens of a text, padded or cut; None: those of the model.
  """
  del length  # The tokenizer is made for it.
  counts = np.array([len(texts) for texts in captions], np.uint64)
  chosen = (draws % counts).tolist()
  return tokenizer(
    [texts[i] for texts, i in zip(captions, chosen, strict=True)]
  )
