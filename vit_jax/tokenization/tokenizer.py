"""Conversion of captions to rows of token ids."""

import dataclasses
import functools
import hashlib
import re
from collections.abc import Mapping, Sequence

import numpy as np

from vit_jax.tokenization import cleaning, clip_pairs, vocabulary
from vit_jax.tokenization.settings import BYTES, FILE, SENTENCEPIECE, Settings

# Surrogates, which JSON can represent and UTF-8 cannot.
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclasses.dataclass(frozen=True)
class Tokenizer:
  """Converts captions to rows of token ids; can be shared by threads.

  Attributes:
    settings: Cleaning rule, ends and length.
    content: Bytes of the vocabulary.
    source: Name of the vocabulary, for messages.
  """

  settings: Settings
  content: bytes = dataclasses.field(default=b"", repr=False)
  source: str = dataclasses.field(default="the tokenizer", compare=False)

  def __post_init__(self):
    # Read now, so that a file that is not a tokenizer is reported at once.
    _ = self._vocabulary

  @functools.cached_property
  def _vocabulary(self):
    if self.settings.vocabulary == BYTES:
      return vocabulary.ByteVocabulary()
    if self.settings.vocabulary != SENTENCEPIECE:
      kind = vocabulary.JsonVocabulary
    elif self.settings.clean in ("siglip", "siglip_cased"):
      kind = vocabulary.SiglipVocabulary
    else:
      kind = vocabulary.SentencePieceVocabulary
    return kind(self.content, self.source)

  def __call__(self, texts: str | Sequence[str]) -> np.ndarray:
    """Returns int32 ids of shape [len(texts), length], one row for a string."""
    texts = [texts] if isinstance(texts, str) else list(texts)
    texts = [t if t.isascii() else _without_surrogates(t) for t in texts]
    return self._rows(self._vocabulary.encode(texts, self._clean))

  def _clean(self, text: str) -> str:
    text = cleaning.RULES[self.settings.clean](text)
    if self.settings.special_words:
      text = clip_pairs.set_apart(text, self.settings.special_words)
    return text

  def _rows(self, pieces: list[list[int]]) -> np.ndarray:
    settings = self.settings
    begin, end = list(settings.begin), list(settings.end)
    room = settings.length - len(begin) - len(end)
    rows = []
    for ids in pieces:
      first = max(len(ids) - room, 0) if settings.truncate_left else 0
      row = begin + ids[first : first + room]
      if not (settings.end_once and row[-len(end) :] == end):
        row += end
      padding = [settings.pad_id] * (settings.length - len(row))
      rows.append(padding + row if settings.pad_left else row + padding)
    return np.array(rows, np.int32).reshape(len(rows), settings.length)

  @property
  def length(self) -> int:
    """Number of ids per row."""
    return self.settings.length

  @property
  def vocab_size(self) -> int:
    """Number of pieces, above every id."""
    return self._vocabulary.size

  @property
  def pad_id(self) -> int:
    """Id that pads a row after its text."""
    return self.settings.pad_id

  @property
  def files(self) -> Mapping[str, bytes]:
    """Files of a directory from which `load_tokenizer` reads this tokenizer."""
    described = {FILE: self.settings.to_json()}
    if self.settings.vocabulary == BYTES:
      return described
    return {**described, self.settings.vocabulary: self.content}

  @functools.cached_property
  def fingerprint(self) -> str:
    """Digest of all that the ids depend on except library versions."""
    digest = hashlib.sha256(self.settings.to_json())
    digest.update(hashlib.sha256(self.content).digest())
    return digest.hexdigest()[:16]

  def has_pieces_of(self, other: "Tokenizer") -> bool:
    """Returns True if the ids mean the same pieces of text as another's.

    Special tokens may have other names, and cleaning and padding may differ, as
    between two libraries' files of one tokenizer.
    """
    ends = [
      {one.pad_id, *one.settings.begin, *one.settings.end}
      for one in (self, other)
    ]
    special = set.union(*ends)
    ours, theirs = (
      {i: piece for i, piece in one.pieces().items() if i not in special}
      for one in (self, other)
    )
    return ours == theirs

  def pieces(self) -> dict[int, str]:
    """Returns the pieces by their ids."""
    return self._vocabulary.pieces()

  def __reduce__(self):
    # The libraries' objects are not pickled; they are rebuilt from the bytes.
    return type(self), (self.settings, self.content, self.source)


def _without_surrogates(text: str) -> str:
  if not _SURROGATES.search(text):
    return text
  # A surrogate pair becomes its character.
  pairs = text.encode("utf-16-le", "surrogatepass")
  return pairs.decode("utf-16-le", "replace")
