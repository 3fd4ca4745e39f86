"""Tokenizers learnt from the user's own captions."""

import io
import json
import pathlib
from collections.abc import Iterator

import sentencepiece
import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from vit_jax.errors import UserError
from vit_jax.tokenization import cleaning, clip_pairs, single_files
from vit_jax.tokenization.settings import SENTENCEPIECE, Settings
from vit_jax.tokenization.tokenizer import Tokenizer

# The same as in lists of images and captions.
_KEYS = ("caption", "captions", "text", "title")


def captions(path: str) -> Iterator[str]:
  """Yields the captions of a file, skipping those without text.

  Args:
    path: A .txt file with one caption per line, or a .jsonl file of objects
      with "caption", "captions", "text" or "title", a string or a list of
      strings.

  Raises:
    UserError: A line cannot be read.
  """
  file = pathlib.Path(path)
  if not file.is_file():
    raise UserError(f"There is no file of captions at {path}.")
  if file.suffix not in (".txt", ".jsonl"):
    raise UserError(f"{path} must be a .txt or .jsonl file of captions.")
  with open(file, "rb") as lines:
    for number, line in enumerate(lines, 1):
      try:
        text = line.decode("utf-8-sig").strip()
      except UnicodeDecodeError:
        raise UserError(f"{path}:{number} is not UTF-8.") from None
      if text:
        found = [text]
        if file.suffix == ".jsonl":
          found = _captions_of(text, f"{path}:{number}")
        yield from (caption for caption in found if caption.strip())


def _captions_of(line: str, where: str) -> list[str]:
  try:
    found = json.loads(line)
  except ValueError:
    found = None
  keys = _KEYS if isinstance(found, dict) else ()
  values = (found[key] for key in keys if found.get(key) is not None)
  value = next(values, None)
  texts = value if isinstance(value, list) else [value]
  if not all(isinstance(text, str) for text in texts):
    raise UserError(
      f'{where} is not a JSON object with "caption", "captions", "text" or'
      ' "title", a string or a list of strings.'
    )
  return [text.encode("utf-8", "replace").decode() for text in texts]


def learn(
  path: str, kind: str, vocab_size: int, length: int | None = None
) -> Tokenizer:
  """Returns a tokenizer with pieces chosen for the captions of a file.

  Args:
    path: Captions, as for `captions`.
    kind: 'bpe', with CLIP's rules, or 'sentencepiece', with those of SigLIP's
      training.
    vocab_size: Maximum number of pieces; a few similar captions give fewer.
    length: Number of ids per row, by default 77 or 64.

  Raises:
    UserError: There are no captions, or vocab_size is too small.
  """
  if kind == "bpe":
    return _learn_pairs(path, vocab_size, length or single_files.CLIP_LENGTH)
  return _learn_sentencepiece(
    path, vocab_size, length or single_files.SIGLIP_LENGTH
  )


def _learn_pairs(path: str, vocab_size: int, length: int) -> Tokenizer:
  num_merges = vocab_size - 514
  if num_merges < 1:
    raise UserError(
      f"--vocab_size={vocab_size} is too small: the bytes and the two ends take"
      " 514; give 515 or more."
    )
  model = tokenizers.Tokenizer(models.BPE(end_of_word_suffix="</w>"))
  model.pre_tokenizer = clip_pairs.words_of_open_clip()
  trainer = trainers.BpeTrainer(
    # Letters count twice, as such and at the end of a word, as in CLIP.
    vocab_size=vocab_size - 2,
    initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    end_of_word_suffix="</w>",
    show_progress=False,
  )
  clean = cleaning.RULES["openai"]
  model.train_from_iterator((clean(t) for t in captions(path)), trainer)
  merges = json.loads(model.to_str())["model"]["merges"][:num_merges]
  if not merges:
    raise UserError(f"{path} holds too few captions to learn from.")
  pairs = [tuple(merge) for merge in merges]
  return single_files.open_clip_pairs(pairs, path, "openai", length)


def _learn_sentencepiece(path: str, vocab_size: int, length: int) -> Tokenizer:
  content = io.BytesIO()
  clean = cleaning.RULES["big_vision"]
  try:
    sentencepiece.SentencePieceTrainer.train(
      sentence_iterator=(clean(text) for text in captions(path)),
      model_writer=content,
      vocab_size=vocab_size,
      hard_vocab_limit=False,
      pad_id=0,
      eos_id=1,
      unk_id=2,
      bos_id=-1,
      minloglevel=2,
    )
  except RuntimeError:
    raise UserError(
      f"No {vocab_size} pieces can be learnt from {path}: give more captions,"
      " or a --vocab_size above the number of their letters."
    ) from None
  settings = Settings(
    vocabulary=SENTENCEPIECE,
    clean="big_vision",
    length=length,
    pad_id=1,
    end=(1,),
  )
  return Tokenizer(settings, content.getvalue(), path)


def check_output(directory: str) -> None:
  """Raises UserError for a directory that is a file."""
  if pathlib.Path(directory).is_file():
    raise UserError(f"--output={directory} is a file; name a directory.")


def write(tokenizer: Tokenizer, directory: str) -> None:
  """Writes a tokenizer for `load_tokenizer` into a directory without one.

  Raises:
    UserError: The directory contains another tokenizer, on which a model may
      depend, or cannot be written.
  """
  try:
    _write(tokenizer, pathlib.Path(directory))
  except OSError as error:
    raise UserError(
      f"--output={directory} cannot be written ({error.strerror or error})."
    ) from None


def _write(tokenizer: Tokenizer, place: pathlib.Path) -> None:
  for name, content in tokenizer.files.items():
    file = place / name
    if file.exists() and file.read_bytes() != content:
      raise UserError(f"{file} is another tokenizer; name a new --output.")
  place.mkdir(parents=True, exist_ok=True)
  # The vocabulary comes first: without settings it is not yet a tokenizer.
  for name, content in reversed(tokenizer.files.items()):
    (place / name).write_bytes(content)
