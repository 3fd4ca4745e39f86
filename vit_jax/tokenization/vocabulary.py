"""Files of pieces, and the libraries that split texts into them."""

import dataclasses
import json
import re
from collections.abc import Callable, Sequence

import sentencepiece
import tokenizers

from vit_jax.errors import UserError

Clean = Callable[[str], str]


class JsonVocabulary:
  """A tokenizer.json of the library tokenizers."""

  def __init__(self, content: bytes, name: str):
    try:
      self.tokenizer = tokenizers.Tokenizer.from_str(content.decode())
    except Exception:  # The library raises nothing more specific.
      raise UserError(
        f"{name} is not a tokenizer.json of the library tokenizers."
      ) from None
    self.tokenizer.no_truncation()
    self.tokenizer.no_padding()
    self.size = self.tokenizer.get_vocab_size()

  def encode(self, texts: Sequence[str], clean: Clean) -> list[list[int]]:
    """Returns the ids of the pieces of each text, without ends."""
    found = self.tokenizer.encode_batch_fast(
      [clean(text) for text in texts], add_special_tokens=False
    )
    return [encoding.ids for encoding in found]

  def ends(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the ids that the file adds before and after a text."""
    inner = self.tokenizer.encode("a", add_special_tokens=False).ids
    outer = self.tokenizer.encode("a").ids
    for start in range(len(outer) - len(inner) + 1):
      if outer[start : start + len(inner)] == inner:
        return tuple(outer[:start]), tuple(outer[start + len(inner) :])
    return (), ()

  def id_of(self, token: str) -> int | None:
    return self.tokenizer.token_to_id(token)

  def pieces(self) -> dict[int, str]:
    """Returns the pieces by their ids."""
    return {i: piece for piece, i in self.tokenizer.get_vocab().items()}


class ByteVocabulary:
  """The UTF-8 bytes of a text, each plus one; 0 and 257 remain free."""

  size = 258

  def encode(self, texts: Sequence[str], clean: Clean) -> list[list[int]]:
    """Returns the ids of the bytes of each text."""
    return [[byte + 1 for byte in clean(text).encode()] for text in texts]

  def pieces(self) -> dict[int, str]:
    """Returns names of the bytes by their ids."""
    return {byte + 1: f"<0x{byte:02X}>" for byte in range(256)}


class SentencePieceVocabulary:
  """A model of the library sentencepiece, used unchanged."""

  def __init__(self, content: bytes, name: str):
    self.processor = sentencepiece.SentencePieceProcessor()
    try:
      self.processor.load_from_serialized_proto(content)
      self.size = self.processor.get_piece_size()
    except Exception:  # The library raises nothing more specific.
      self.size = 0
    if not self.size:
      raise UserError(f"{name} is not a model of the library sentencepiece.")

  def encode(self, texts: Sequence[str], clean: Clean) -> list[list[int]]:
    """Returns the ids of the pieces of each text, without ends."""
    return self.processor.encode([clean(text) for text in texts])

  def pieces(self) -> dict[int, str]:
    """Returns the pieces by their ids."""
    return dict(enumerate(self.processor.id_to_piece(range(self.size))))


class SiglipVocabulary(SentencePieceVocabulary):
  """A model of sentencepiece, used as in transformers' SiglipTokenizer.

  Special tokens in a text are recognised, and each part between them is cleaned
  and split separately, after a prefix, the pieces of which are removed.
  """

  _SPACE = "\u2581"  # sentencepiece's mark for the start of a word.
  _PREFIX = "<unk>"
  _SPECIAL = re.compile("(</s>|<unk>)")

  def __init__(self, content: bytes, name: str):
    super().__init__(content, name)
    self._num_prefix = len(self.processor.encode(self._PREFIX))
    self._space_id = self.processor.piece_to_id(self._SPACE)

  def encode(self, texts: Sequence[str], clean: Clean) -> list[list[int]]:
    texts = [self._SPACE + t.replace(self._SPACE, " ") for t in texts]
    rows = self._cut([clean(text) for text in texts])
    for row, text in enumerate(texts):
      if self._SPECIAL.search(text):
        rows[row] = self._encode_with_special_tokens(text, clean)
    return rows

  def _cut(self, texts: list[str]) -> list[list[int]]:
    rows = self.processor.encode([self._PREFIX + text for text in texts])
    return [row[self._num_prefix :] for row in rows]

  def _encode_with_special_tokens(self, text: str, clean: Clean) -> list[int]:
    ids = []
    for number, part in enumerate(self._SPECIAL.split(text)):
      if number % 2:
        ids.append(self.processor.piece_to_id(part))
      elif part.strip():
        ids += self._cut([clean(part)])[0]
    special = {self.processor.piece_to_id(s) for s in ("</s>", "<unk>")}
    if len(ids) > 1 and ids[0] == self._space_id and ids[1] in special:
      ids = ids[1:]
    return ids


@dataclasses.dataclass(frozen=True)
class Stated:
  """Length, padding and truncation stated by a tokenizer.json, or None."""

  length: int | None
  pad_id: int | None
  pad_left: bool
  truncate_left: bool


def stated_by(content: bytes) -> Stated:
  """Reads the lengths stated by a tokenizer.json, which must be valid."""
  found = json.loads(content)
  padding = found.get("padding") or {}
  truncation = found.get("truncation") or {}
  strategy = padding.get("strategy")
  fixed = strategy.get("Fixed") if isinstance(strategy, dict) else None
  return Stated(
    length=truncation.get("max_length") or fixed,
    pad_id=padding.get("pad_id"),
    pad_left=padding.get("direction") == "Left",
    truncate_left=truncation.get("direction") == "Left",
  )


def in_lower_case(content: bytes) -> bytes:
  """Returns a tokenizer.json that first converts text to lower case."""
  found = json.loads(content)
  lower = {"type": "Lowercase"}
  rest = found.get("normalizer")
  parts = rest["normalizers"] if _is_sequence(rest) else [rest] if rest else []
  if lower not in parts:
    found["normalizer"] = {"type": "Sequence", "normalizers": [lower, *parts]}
  return json.dumps(found, ensure_ascii=False).encode()


def _is_sequence(normalizer: dict | None) -> bool:
  return bool(normalizer) and normalizer["type"] == "Sequence"
