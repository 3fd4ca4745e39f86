"""Tokenizers of a single file, by the rules of its publisher."""

import gzip
import zlib

from etils import epath

from vit_jax.errors import UserError
from vit_jax.tokenization import clip_pairs, vocabulary
from vit_jax.tokenization.settings import (
  SENTENCEPIECE,
  TOKENIZER_JSON,
  Settings,
)
from vit_jax.tokenization.tokenizer import Tokenizer

CLIP_LENGTH = 77
SIGLIP_LENGTH = 64


def read(file: epath.Path) -> Tokenizer:
  """Reads CLIP's merges, a sentencepiece model, or a tokenizer.json."""
  if file.name.endswith((".txt", ".txt.gz")):
    return clip_merges(file, "openai", CLIP_LENGTH)
  if file.suffix in (".model", ".spm"):
    return sentencepiece_model(file, SIGLIP_LENGTH)
  if file.suffix == ".json":
    return tokenizer_json(file)
  raise UserError(
    f"{file} is not a tokenizer: give bpe_simple_vocab_16e6.txt.gz, a .model of"
    " sentencepiece, a tokenizer.json, or a directory."
  )


def clip_merges(file: epath.Path, clean: str, length: int) -> Tokenizer:
  """Reads CLIP's merges by the rule of OpenAI and open_clip: padding with 0."""
  content = file.read_bytes()
  try:
    if file.suffix == ".gz":
      content = gzip.decompress(content)
    text = content.decode()
  except (OSError, EOFError, zlib.error, UnicodeDecodeError):
    raise UserError(f"{file} cannot be read as CLIP's merges.") from None
  merges = clip_pairs.parse_merges(text, str(file))
  return open_clip_pairs(merges, str(file), clean, length)


def open_clip_pairs(
  merges: list[tuple[str, str]], name: str, clean: str, length: int
) -> Tokenizer:
  first = 512 + len(merges)
  settings = Settings(
    vocabulary=TOKENIZER_JSON,
    clean=clean,
    length=length,
    pad_id=0,
    begin=(first,),
    end=(first + 1,),
    special_words=clip_pairs.OPEN_CLIP_WORDS,
  )
  return Tokenizer(settings, clip_pairs.by_open_clip(merges), name)


def sentencepiece_model(file: epath.Path, length: int) -> Tokenizer:
  """Reads a model as in SigLIP's training: an end of text, then padding.

  Gemma's model, which has a start token, is padded with its own padding, other
  models with the end of text.
  """
  content = file.read_bytes()
  processor = vocabulary.SentencePieceVocabulary(content, str(file)).processor
  end, pad = processor.eos_id(), processor.pad_id()
  if end < 0:
    raise UserError(
      f"{file} has no token for the end of a text, which SigLIP needs."
    )
  is_gemma = processor.bos_id() >= 0 and pad >= 0
  settings = Settings(
    vocabulary=SENTENCEPIECE,
    clean="big_vision",
    length=length,
    pad_id=pad if is_gemma else end,
    end=(end,),
  )
  return Tokenizer(settings, content, str(file))


def tokenizer_json(file: epath.Path) -> Tokenizer:
  """Reads a tokenizer.json with the ends, length and padding that it states."""
  content = file.read_bytes()
  pieces = vocabulary.JsonVocabulary(content, str(file))
  begin, end = pieces.ends()
  stated = vocabulary.stated_by(content)
  pad_id = stated.pad_id
  if pad_id is None:
    pad_id = end[-1] if end else 0
  settings = Settings(
    vocabulary=TOKENIZER_JSON,
    clean="none",
    length=stated.length or (CLIP_LENGTH if begin else SIGLIP_LENGTH),
    pad_id=pad_id,
    begin=begin,
    end=end,
    pad_left=stated.pad_left,
    truncate_left=stated.truncate_left,
  )
  return Tokenizer(settings, content, str(file))
