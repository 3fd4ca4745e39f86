"""Tokens of captions of many examples: one caption each, drawn by row."""

import zlib
from typing import Any

import numpy as np

from vit_jax.data import order
from vit_jax.data.features import Captions
from vit_jax.data.ops_text import Tokenizer
from vit_jax.errors import UserError


def load(
  name: str | None, *, length: int, vocab_size: int | None, where: str
) -> Any:
  """Loads the tokenizer named by `config.train.tokenizer`.

  Args:
    name: The value of that key.
    length: Number of tokens per text.
    vocab_size: Number of tokens that the model knows; None for any.
    where: Name of the user of the tokenizer, for messages.

  Raises:
    UserError: It is not given, cannot be read, or has more tokens than the
      model.
  """
  if name is None:
    raise UserError(
      f"{where} needs a tokenizer; name its file in config.train.tokenizer, or"
      " take 'bytes' for a trial."
    )
  from vit_jax.tokenization.load import load_tokenizer

  try:
    tokenizer = load_tokenizer(name, length=length)
  except UserError as error:
    raise UserError(f"config.train.tokenizer = {name!r}: {error}") from None
  if vocab_size is not None and tokenizer.vocab_size > vocab_size:
    raise UserError(
      f"config.train.tokenizer = {name!r} has"
      f" {tokenizer.vocab_size} tokens, but config.model.text.vocab_size ="
      f" {vocab_size}; take the tokenizer of the model, or set the size."
    )
  return tokenizer


def of_captions(captions: Captions) -> Any:
  """Loads the tokenizer of the feature `text`; see `load`."""
  return load(
    captions.tokenizer,
    length=captions.length,
    vocab_size=captions.vocab_size,
    where=captions.call.where,
  )


class CaptionTokens:
  """Computes the feature `text` for rows of the endless stream.

  Args:
    captions: The declaration of the feature.
    seed: Seed of the run.
    tokenizer: Tokenizer to use; None for that of the declaration's file.

  Raises:
    UserError: As `load`.
  """

  def __init__(
    self, captions: Captions, *, seed: int, tokenizer: Tokenizer | None = None
  ):
    self._call = captions.call
    self._length = captions.length
    self._tokenizer = of_captions(captions) if tokenizer is None else tokenizer
    self._stream = seed, zlib.crc32(captions.call.name.encode())

  def __call__(self, captions: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Returns int32 [n, length]; the seed determines each row's caption.

    Args:
      captions: Object [n], a tuple of one or more captions for each row.
      rows: int64 [n].
    """
    draws = order.derive_key(*self._stream, rows)
    call = self._call
    tokens = call.op.function(
      captions, draws, self._tokenizer, *call.args, **call.kwargs
    )
    assert tokens.shape == (len(rows), self._length), tokens.shape
    return np.asarray(tokens, np.int32)
