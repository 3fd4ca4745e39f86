"""Tokenizers from the files of a checkpoint."""

import dataclasses
import os

from etils import epath

from vit_jax import named_weights, weight_paths
from vit_jax.errors import UserError
from vit_jax.tokenization import (
  huggingface_files,
  open_clip_files,
  settings,
  single_files,
)
from vit_jax.tokenization.tokenizer import Tokenizer

# Name in a workdir.
DIRECTORY = "tokenizer"
# The end is the largest id, and rows are padded with 0.
_OF_BYTES = settings.Settings(
  settings.BYTES, clean="none", length=64, pad_id=0, end=(257,)
)


def load_tokenizer(
  path: str | os.PathLike[str], length: int | None = None
) -> Tokenizer:
  """Reads the tokenizer of CLIP or SigLIP; docs/tokenizers.md lists the rules.

  Args:
    path: A directory of Hugging Face, of open_clip or written by vit_jax, the
      workdir of a run or one of its checkpoints/STEP, or a single file:
      bpe_simple_vocab_16e6.txt.gz, a tokenizer.json, or a .model of
      sentencepiece. For a file of weights, or FILE/NAME, that is its directory.
      'bytes' uses the bytes of a text, without a file.
    length: Number of ids per row; by default that of the files.

  Raises:
    UserError: The files are missing, are not a tokenizer, or do not fit
      together.
  """
  place = epath.Path(named_weights.local(os.fspath(path)))
  place = weight_paths.folder(place) or place
  if os.fspath(path) == settings.BYTES and not place.exists():
    found = Tokenizer(_OF_BYTES)
  elif not place.exists() and place.name == "best":  # Of a run.
    return load_tokenizer(place.parent, length)
  elif not place.exists():
    raise UserError(
      f"There is no tokenizer at {path}; give"
      " bpe_simple_vocab_16e6.txt.gz, a .model of sentencepiece, a"
      " tokenizer.json, or a directory of one of them."
    )
  elif not place.is_dir():
    found = single_files.read(place)
  elif (place / settings.FILE).exists():
    found = _read_own(place)
  elif (kept := _kept_by_run(place)) is not None:
    found = _read_own(kept)
  elif (place / open_clip_files.CONFIG).exists():
    found = open_clip_files.read(place)
  else:
    found = huggingface_files.read(place)
  if length is not None and length != found.length:
    changed = dataclasses.replace(found.settings, length=length)
    found = dataclasses.replace(found, settings=changed)
  return found


def _read_own(place: epath.Path) -> Tokenizer:
  own = place / settings.FILE
  described = settings.Settings.from_json(own.read_bytes(), str(own))
  if described.vocabulary == settings.BYTES:
    return Tokenizer(described)
  file = place / described.vocabulary
  if not file.exists():
    raise UserError(f"{own} asks for {described.vocabulary}, which is missing.")
  return Tokenizer(described, file.read_bytes(), str(file))


def _kept_by_run(place: epath.Path) -> epath.Path | None:
  """The tokenizer in the workdir that `place` is or belongs to."""
  for workdir in (place, place.parent, place.parent.parent):
    kept = workdir / DIRECTORY
    if (kept / settings.FILE).exists():
      return kept
    if "checkpoints" not in (place.name, place.parent.name):
      break
  return None
