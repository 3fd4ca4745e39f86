"""CLIP's byte pairs: a tokenizer.json built from its merges."""

import re

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, processors

from vit_jax.errors import UserError

# Spelling and numbering of open_clip; transformers' are START and END.
OPEN_CLIP_WORDS = ("<start_of_text>", "<end_of_text>")
START, END = "<|startoftext|>", "<|endoftext|>"
# The published file has more; the rest are not numbered.
_NUM_MERGES = 49152 - 256 - 2
# The classes and the long s reproduce Python's case-insensitive matching.
_WORDS = (
  r"'[sSſ]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]"
  r"|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
)
_CONTRACTIONS = "'(?:[stmdſ]|re|ve|ll)"


def byte_letters() -> list[str]:
  """Returns the letters that represent bytes, in the order of their ids."""
  printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
  others = [byte for byte in range(256) if byte not in printable]
  return [chr(b) for b in printable] + [
    chr(256 + i) for i in range(len(others))
  ]


def parse_merges(text: str, name: str) -> list[tuple[str, str]]:
  """Reads merges.txt, or the text of bpe_simple_vocab_16e6.txt.gz."""
  lines = text.split("\n")[1 : _NUM_MERGES + 1]
  merges = [tuple(line.split()) for line in lines if line.strip()]
  if not merges or any(len(merge) != 2 for merge in merges):
    raise UserError(
      f"{name} is not a list of merges: each line after the first must have two"
      " pieces with a space between them."
    )
  return merges


def vocabulary_of(merges: list[tuple[str, str]]) -> dict[str, int]:
  """Numbers letters, letters that end words, and merges, as in CLIP."""
  letters = byte_letters()
  pieces = [*letters, *(letter + "</w>" for letter in letters)]
  pieces += [first + second for first, second in merges]
  # The last of two equal pieces gets the number.
  return {piece: number for number, piece in enumerate(pieces)}


def by_open_clip(merges: list[tuple[str, str]]) -> bytes:
  """Returns open_clip's SimpleTokenizer, without its cleaning."""
  vocabulary = vocabulary_of(merges)
  first = 512 + len(merges)
  for number, word in enumerate(OPEN_CLIP_WORDS):
    vocabulary[word] = first + number
  found = _tokenizer(vocabulary, merges, _WORDS, OPEN_CLIP_WORDS, False)
  return found.to_str().encode()


def by_transformers(
  vocabulary: dict[str, int], merges: list[tuple[str, str]], name: str
) -> bytes:
  """Returns transformers' CLIPTokenizer from vocab.json and merges.txt."""
  for word in (START, END):
    if word not in vocabulary:
      raise UserError(f"{name} lacks {word}, without which it is not CLIP's.")
  special = "|".join(re.escape(word) for word in (START, END))
  words = f"{special}|'s|'t|'re|'ve|'m|'ll|'d|{_WORDS.partition('[dD]|')[2]}"
  # transformers splits the words again, by GPT-2's expression.
  found = _tokenizer(vocabulary, merges, words, (START, END), True)
  found.normalizer = normalizers.Sequence(
    [
      normalizers.NFC(),
      normalizers.Replace(tokenizers.Regex(r"\s+"), " "),
      normalizers.Lowercase(),
    ]
  )
  return found.to_str().encode()


def words_of_open_clip() -> pre_tokenizers.PreTokenizer:
  """Returns a splitter of texts into words, in letters representing bytes."""
  return _splitter(_WORDS, split_again=False)


def _splitter(words: str, split_again: bool) -> pre_tokenizers.PreTokenizer:
  return pre_tokenizers.Sequence(
    [
      pre_tokenizers.Split(tokenizers.Regex(words), "removed", invert=True),
      pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split_again),
    ]
  )


def _tokenizer(
  vocabulary: dict[str, int],
  merges: list[tuple[str, str]],
  words: str,
  special: tuple[str, str],
  split_again: bool,
) -> tokenizers.Tokenizer:
  found = tokenizers.Tokenizer(
    models.BPE(
      vocab=vocabulary,
      merges=merges,
      continuing_subword_prefix="",
      end_of_word_suffix="</w>",
      unk_token=special[1],
    )
  )
  found.pre_tokenizer = _splitter(words, split_again)
  start, end = ((word, vocabulary[word]) for word in special)
  found.post_processor = processors.RobertaProcessing(
    end, start, trim_offsets=False, add_prefix_space=False
  )
  found.add_special_tokens(
    [tokenizers.AddedToken(w, normalized=False, special=True) for w in special]
  )
  return found


def set_apart(text: str, special: tuple[str, ...]) -> str:
  """Adds spaces so that special tokens inside punctuation are not recognised.

  open_clip recognises them only at the start of a word, not in
  '!!<end_of_text>', whereas the library tokenizers does so everywhere.
  """
  if not any(word in text for word in special):
    return text
  kept = "|".join([*map(re.escape, special), _CONTRACTIONS])
  return re.sub(
    rf"({kept})|(?:[^\w\s]|_)+",
    lambda found: found[0] if found[1] else found[0] + " ",
    text,
    flags=re.IGNORECASE,
  )
