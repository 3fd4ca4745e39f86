"""Tokenizers in open_clip directories, as used by open_clip."""

import dataclasses

from etils import epath

from vit_jax.errors import UserError
from vit_jax.tokenization import (
  huggingface_files,
  json_files,
  single_files,
)
from vit_jax.tokenization.tokenizer import Tokenizer

CONFIG = "open_clip_config.json"
_RULES = {"lower": "openai", "whitespace": "whitespace"}
_RULES["canonicalize"] = "canonicalize"
_CLIP = "bpe_simple_vocab_16e6.txt.gz"


def read(directory: epath.Path) -> Tokenizer:
  """Reads CLIP's byte pairs, or the named Hugging Face tokenizer."""
  config_file = directory / CONFIG
  config = json_files.read(config_file)
  model = json_files.section(config, "model_cfg") or config
  text = json_files.section(model, "text_cfg")
  kwargs = dict(json_files.section(text, "tokenizer_kwargs"))
  named = text.get("hf_tokenizer_name")
  clean = kwargs.pop("clean", "whitespace" if named else "lower")
  if clean not in _RULES:
    raise UserError(
      f"{config_file}: tokenizer_kwargs.clean is {clean!r}; it must be"
      f" {', '.join(_RULES)}."
    )
  if any(kwargs.values()):
    raise UserError(
      f"{config_file}: tokenizer_kwargs {sorted(kwargs)} are not supported;"
      " only clean is."
    )
  length = text.get("context_length", single_files.CLIP_LENGTH)
  if named:
    found = _huggingface(directory, _RULES[clean], length)
  else:
    found = _clip(directory, _RULES[clean], length)
  json_files.raise_if_other_vocabulary(
    text.get("vocab_size"), found.vocab_size, config_file, found.source
  )
  return found


def _huggingface(directory: epath.Path, clean: str, length: int) -> Tokenizer:
  file = directory / "tokenizer.json"
  if not file.exists():
    raise UserError(f"{directory / CONFIG} needs {file}, which is missing.")
  named = json_files.read(directory / "tokenizer_config.json")
  found = huggingface_files.from_json(
    file, file.read_bytes(), named, is_siglip_2=False
  )
  settings = dataclasses.replace(found.settings, clean=clean, length=length)
  return dataclasses.replace(found, settings=settings)


def _clip(directory: epath.Path, clean: str, length: int) -> Tokenizer:
  file = directory / _CLIP
  if file.exists():
    return single_files.clip_merges(file, clean, length)
  # The same merges, stored next to open_clip's weights for transformers.
  merges = directory / "merges.txt"
  if merges.exists():
    return single_files.clip_merges(merges, clean, length)
  json_file = directory / "tokenizer.json"
  pairs = json_files.section(json_files.read(json_file), "model").get("merges")
  if not pairs:
    raise UserError(
      f"{directory} holds no tokenizer: there is no {_CLIP}, merges.txt or"
      " tokenizer.json with merges."
    )
  pairs = [tuple(p.split() if isinstance(p, str) else p) for p in pairs]
  return single_files.open_clip_pairs(pairs, str(json_file), clean, length)
