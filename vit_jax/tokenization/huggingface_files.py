"""Tokenizers in Hugging Face directories, as used by transformers."""

import dataclasses
import json
from collections.abc import Callable

from etils import epath

from vit_jax.errors import UserError
from vit_jax.tokenization import (
  clip_pairs,
  json_files,
  single_files,
  vocabulary,
)
from vit_jax.tokenization.settings import (
  TOKENIZER_JSON,
  Settings,
)
from vit_jax.tokenization.tokenizer import Tokenizer

_GEMMA = ("Siglip2Tokenizer", "GemmaTokenizer", "GemmaTokenizerFast")
_NAMED = "tokenizer_config.json"
_UNLIMITED = 10**6  # transformers states 1e30 for no limit.


def read(directory: epath.Path) -> Tokenizer:
  """Reads the tokenizer of CLIP, SigLIP or SigLIP 2.

  The first of these files is used: spiece.model; tokenizer.json; vocab.json and
  merges.txt; Gemma's tokenizer.model.
  """
  config_file = directory / "config.json"
  config = json_files.read(config_file)
  named = json_files.read(directory / _NAMED)
  text = json_files.section(config, "text_config") or config
  found = _read_vocabulary(directory, config, named)
  json_files.raise_if_other_vocabulary(
    text.get("vocab_size"), found.vocab_size, config_file, found.source
  )
  length = text.get("max_position_embeddings") or _limit(named)
  if length:
    settings = dataclasses.replace(found.settings, length=length)
    found = dataclasses.replace(found, settings=settings)
  return found


def _read_vocabulary(directory: epath.Path, config, named) -> Tokenizer:
  if (directory / "spiece.model").exists():
    return _siglip(directory / "spiece.model", named)
  file = directory / "tokenizer.json"
  if file.exists():
    content = file.read_bytes()
    is_siglip_2 = named.get("tokenizer_class") in _GEMMA or str(
      config.get("model_type")
    ).startswith("siglip")
    return from_json(file, content, named, is_siglip_2)
  if (directory / "vocab.json").exists():
    return _clip(directory, named)
  if (directory / "tokenizer.model").exists():
    file = directory / "tokenizer.model"
    return _sentencepiece(file, named)
  raise UserError(
    f"{directory} holds no tokenizer: there is no spiece.model, tokenizer.json,"
    " vocab.json or tokenizer.model."
  )


def _sentencepiece(
  file: epath.Path, named: dict, pad_token: str | None = None, **keys
) -> Tokenizer:
  """Reads a model of sentencepiece with tokenizer_config.json's additions.

  Args:
    file: The model.
    named: Content of tokenizer_config.json, empty without one.
    pad_token: Token for padding if `named` has none and the model has it.
    **keys: Settings that differ from those of the model alone.
  """
  found = single_files.sentencepiece_model(file, single_files.SIGLIP_LENGTH)
  ids = {token: i for i, token in found.pieces().items()}
  pad_id = _stated_id(named, "pad_token", ids.get, file)
  if pad_id is None:
    pad_id = ids.get(pad_token)
  if pad_id is not None:
    keys["pad_id"] = pad_id
  end = _stated_id(named, "eos_token", ids.get, file)
  if end is not None:
    keys["end"] = (end,)
  settings = dataclasses.replace(found.settings, **keys, **_sides(named))
  return dataclasses.replace(found, settings=settings)


def _siglip(file: epath.Path, named: dict) -> Tokenizer:
  lower = named.get("do_lower_case", True)
  return _sentencepiece(
    file,
    named,
    pad_token="</s>",
    clean="siglip" if lower else "siglip_cased",
    end_once=True,
  )


def from_json(
  file: epath.Path, content: bytes, named: dict, is_siglip_2: bool
) -> Tokenizer:
  """Reads a tokenizer.json and the additions of tokenizer_config.json.

  Args:
    file: The file, or the vocabulary that the content was made from.
    content: Bytes of a tokenizer.json.
    named: Content of tokenizer_config.json, empty without one.
    is_siglip_2: True to convert text to lower case, as in SigLIP 2's training
      but stated in no file.
  """
  source = str(file)
  pieces = vocabulary.JsonVocabulary(content, source)
  begin, end = pieces.ends()
  if is_siglip_2:
    begin, end = _ends_of_gemma(pieces, named, begin, end)
    content = vocabulary.in_lower_case(content)
  stated = vocabulary.stated_by(content)
  pad_id = _stated_id(named, "pad_token", pieces.id_of, file)
  if pad_id is None and is_siglip_2:
    pad_id = pieces.id_of("<pad>")
  if pad_id is None:
    pad_id = stated.pad_id
  if pad_id is None:
    pad_id = end[-1] if end else 0
  default = single_files.CLIP_LENGTH if begin else single_files.SIGLIP_LENGTH
  settings = Settings(
    vocabulary=TOKENIZER_JSON,
    clean="none",
    length=_limit(named) or stated.length or default,
    pad_id=pad_id,
    begin=begin,
    end=end,
    **_sides(named, stated.pad_left, stated.truncate_left),
  )
  return Tokenizer(settings, content, source)


def _sides(
  named: dict, pad_left: bool = False, truncate_left: bool = False
) -> dict[str, bool]:
  """Returns the sides in tokenizer_config.json, or else those given."""
  asked = {
    "pad_left": ("padding_side", pad_left),
    "truncate_left": ("truncation_side", truncate_left),
  }
  return {
    ours: named[key] == "left" if key in named else default
    for ours, (key, default) in asked.items()
  }


def _ends_of_gemma(pieces, named: dict, begin, end):
  """Returns the ends from tokenizer_config.json, or else those of the file."""
  asked = (("add_bos_token", "<bos>", begin), ("add_eos_token", "<eos>", end))
  found = []
  for key, token, of_file in asked:
    if key not in named:
      found.append(of_file)
    elif named[key]:
      found.append((pieces.id_of(token),))
    else:
      found.append(())
  return found


def _clip(directory: epath.Path, named: dict) -> Tokenizer:
  source = directory / "vocab.json"
  merges = directory / "merges.txt"
  if not merges.exists():
    raise UserError(
      f"{source} needs merges.txt in the same folder, which is missing."
    )
  pairs = clip_pairs.parse_merges(merges.read_text("utf-8"), str(merges))
  ids = json_files.read(source)
  try:
    content = clip_pairs.by_transformers(ids, pairs, str(source))
  except (TypeError, ValueError, KeyError, json.JSONDecodeError):
    raise UserError(f"{source} and {merges} do not fit together.") from None
  return from_json(source, content, named, is_siglip_2=False)


def _stated_id(
  named: dict, key: str, id_of: Callable[[str], int | None], file: epath.Path
) -> int | None:
  """Returns the id of a token in tokenizer_config.json; None without one.

  Raises:
    UserError: The vocabulary lacks it; transformers adds it with a new id, for
      which the network has no embedding.
  """
  token = _token(named, key)
  if token is None:
    return None
  found = id_of(token)
  if found is None:
    raise UserError(
      f"{file.parent / _NAMED}: {key} = {json.dumps(token)} is not a token of"
      f" {file.name}, so the network has no embedding of it."
    )
  return found


def _token(named: dict, key: str) -> str | None:
  token = named.get(key)
  if isinstance(token, dict):
    token = token.get("content")
  return token if isinstance(token, str) else None


def _limit(named: dict) -> int | None:
  limit = named.get("model_max_length")
  return int(limit) if limit and limit < _UNLIMITED else None
