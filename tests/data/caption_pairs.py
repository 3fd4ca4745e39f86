"""A tokenizer and captions that tests of pairs share."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class ByteTokenizer:
  """A stand-in for a tokenizer: the bytes of a text, then 256."""

  length: int = 12
  vocab_size: int = 257
  fingerprint: str = "bytes"

  def __call__(self, texts: list[str]) -> np.ndarray:
    tokens = np.full((len(texts), self.length), 256, np.int32)
    for row, text in zip(tokens, texts, strict=True):
      content = text.encode()[: self.length]
      row[: len(content)] = list(content)
    return tokens


def texts_of(tokens: np.ndarray) -> list[str]:
  """The texts, cut, that the stand-in made tokens of."""
  return [bytes(row[row < 256].tolist()).decode() for row in tokens]
