"""Settings of a tokenizer: cleaning rule, ends and length."""

import dataclasses
import json

from vit_jax.errors import UserError
from vit_jax.tokenization import cleaning

FILE = "vit_jax_tokenizer.json"
TOKENIZER_JSON = "tokenizer.json"
SENTENCEPIECE = "spiece.model"
BYTES = "bytes"


@dataclasses.dataclass(frozen=True)
class Settings:
  """All parts of a tokenizer except its vocabulary.

  Attributes:
    vocabulary: Name of the file of pieces, TOKENIZER_JSON or SENTENCEPIECE, or
      BYTES, which has no file.
    clean: Name of a rule of `cleaning.RULES`.
    length: Number of ids per row.
    pad_id: Id for padding.
    begin: Ids at the start of each row.
    end: Ids after the last piece, kept when a row is truncated.
    end_once: True to add no `end` to pieces that already have it.
    pad_left: True to pad rows on the left.
    special_words: Special tokens that are recognised only at the start of a
      word.
    truncate_left: True to drop the start of a text that is too long.
  """

  vocabulary: str
  clean: str
  length: int
  pad_id: int
  begin: tuple[int, ...] = ()
  end: tuple[int, ...] = ()
  end_once: bool = False
  pad_left: bool = False
  special_words: tuple[str, ...] = ()
  truncate_left: bool = False

  def __post_init__(self):
    if self.clean not in cleaning.RULES:
      raise UserError(
        f"There is no cleaning rule {self.clean!r}; the rules are"
        f" {', '.join(cleaning.RULES)}."
      )
    least = len(self.begin) + len(self.end) + 1
    if self.length < least:
      raise UserError(
        f"A length of {self.length} leaves no room for text; use {least} or"
        " more."
      )

  def to_json(self) -> bytes:
    found = dataclasses.asdict(self)
    if not self.truncate_left:
      # Tokenizers from before this setting keep their digest.
      del found["truncate_left"]
    text = json.dumps(found, indent=2, sort_keys=True)
    return (text + "\n").encode()

  @classmethod
  def from_json(cls, content: bytes, name: str) -> "Settings":
    try:
      found = json.loads(content)
      lists = ("begin", "end", "special_words")
      return cls(**{k: tuple(v) if k in lists else v for k, v in found.items()})
    except (ValueError, TypeError, AttributeError):
      raise UserError(
        f"{name} is not the description of a tokenizer that vit_jax wrote."
      ) from None
