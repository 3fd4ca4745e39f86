"""Makes the small tokenizers of tests/golden/tokenizers, with expected ids.

  python tests/golden/make_tokenizers.py

The captions are those of tests/tokenization/odd_texts.py, the ids those of
transformers 5.23.0, open_clip 3.3.0 and sentencepiece 0.2.3.
"""

import gzip
import json
import pathlib
import shutil
import sys

import numpy as np
import sentencepiece
import tokenizers
import transformers
from open_clip import tokenizer as open_clip

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))
from tests.tokenization import odd_texts  # noqa: E402

FOLDER = HERE / "tokenizers"
NUM_TEXTS = 120
TEXTS = odd_texts.texts(NUM_TEXTS)
CORPUS = [t.replace("\x00", " ") for t in odd_texts.texts(3000, seed=1)]
LENGTH = 24
NUM_MERGES = 300


def save(name: str, ids) -> None:
  np.savez_compressed(FOLDER / f"{name}.npz", ids=np.asarray(ids, np.int16))


def padded(tokenizer, length: int):
  return tokenizer(
    TEXTS, padding="max_length", max_length=length, truncation=True
  ).input_ids


def byte_pairs() -> list[tuple[str, str]]:
  """Merges of CLIP's kind, which end words with </w>."""
  model = tokenizers.Tokenizer(tokenizers.models.BPE(end_of_word_suffix="</w>"))
  model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(False)
  model.train_from_iterator(
    (text.lower().replace(" ", "\n") for text in CORPUS),
    tokenizers.trainers.BpeTrainer(
      vocab_size=1200, end_of_word_suffix="</w>", show_progress=False
    ),
  )
  merges = json.loads(model.to_str())["model"]["merges"]
  return [tuple(merge) for merge in merges][:NUM_MERGES]


def make_open_clip() -> open_clip.SimpleTokenizer:
  lines = ["#version: 0.2", *(" ".join(merge) for merge in byte_pairs())]
  folder = FOLDER / "open_clip"
  folder.mkdir()
  file = folder / "bpe_simple_vocab_16e6.txt.gz"
  file.write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))
  text = {
    "context_length": LENGTH,
    "vocab_size": 514 + NUM_MERGES,
    "tokenizer_kwargs": {"clean": "canonicalize"},
  }
  config = {"model_cfg": {"text_cfg": text}}
  (folder / "open_clip_config.json").write_text(json.dumps(config))
  canonical = open_clip.SimpleTokenizer(
    str(file), context_length=LENGTH, clean="canonicalize"
  )
  save("open_clip", canonical(TEXTS))
  plain = open_clip.SimpleTokenizer(str(file))
  save("openai", plain(TEXTS))
  return plain


def make_huggingface_clip(plain: open_clip.SimpleTokenizer) -> None:
  names = {"<start_of_text>": "<|startoftext|>"}
  names["<end_of_text>"] = "<|endoftext|>"
  vocabulary = {names.get(k, k): v for k, v in plain.encoder.items()}
  merges = list(plain.bpe_ranks)
  tokenizer = transformers.CLIPTokenizer(vocab=vocabulary, merges=merges)
  config = {"model_type": "clip"}
  config["text_config"] = {
    "max_position_embeddings": LENGTH,
    "vocab_size": len(vocabulary),
  }
  folder = FOLDER / "huggingface_clip"
  tokenizer.save_pretrained(folder)
  (folder / "config.json").write_text(json.dumps(config))
  old = FOLDER / "huggingface_clip_old"
  old.mkdir()
  (old / "config.json").write_text(json.dumps(config))
  (old / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False))
  lines = ["#version: 0.2", *(" ".join(merge) for merge in merges), ""]
  (old / "merges.txt").write_text("\n".join(lines))
  save("huggingface_clip", padded(tokenizer, LENGTH))
  loaded = transformers.CLIPTokenizer.from_pretrained(old)
  save("huggingface_clip_old", padded(loaded, LENGTH))


def train_sentencepiece(path: pathlib.Path, **options) -> None:
  writer = open(path, "wb")
  with writer:
    sentencepiece.SentencePieceTrainer.train(
      sentence_iterator=iter(CORPUS),
      model_writer=writer,
      hard_vocab_limit=False,
      minloglevel=2,
      num_threads=1,
      **options,
    )


def make_siglip() -> None:
  folder = FOLDER / "huggingface_siglip"
  folder.mkdir()
  file = folder / "spiece.model"
  ids = dict(pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
  # Without the tables of Unicode, which are most of the published file.
  train_sentencepiece(
    file, vocab_size=1000, normalization_rule_name="identity", **ids
  )
  tokenizer = transformers.SiglipTokenizer(str(file))
  size = tokenizer.vocab_size
  text = {"max_position_embeddings": 16, "vocab_size": size}
  config = {"model_type": "siglip", "text_config": text}
  (folder / "config.json").write_text(json.dumps(config))
  save("huggingface_siglip", padded(tokenizer, 16))
  pieces = sentencepiece.SentencePieceProcessor(model_file=str(file))
  scored = [(pieces.id_to_piece(i), pieces.get_score(i)) for i in range(size)]
  t5 = transformers.T5Tokenizer(vocab=scored, extra_ids=0)
  t5.pad_token_id = t5.eos_token_id = 1
  folder = FOLDER / "open_clip_siglip"
  t5.save_pretrained(folder)
  text = {
    "context_length": 16,
    "vocab_size": size,
    "hf_tokenizer_name": "elsewhere",
    "tokenizer_kwargs": {"clean": "canonicalize"},
  }
  config = {"model_cfg": {"text_cfg": text}}
  (folder / "open_clip_config.json").write_text(json.dumps(config))
  loaded = open_clip.HFTokenizer(str(folder), 16, clean="canonicalize")
  save("open_clip_siglip", loaded(TEXTS))


def make_siglip_2() -> None:
  folder = FOLDER / "huggingface_siglip2"
  folder.mkdir()
  file = folder / "tokenizer.model"
  train_sentencepiece(
    file,
    vocab_size=900,
    model_type="bpe",
    byte_fallback=True,
    pad_id=0,
    eos_id=1,
    bos_id=2,
    unk_id=3,
    eos_piece="<eos>",
    bos_piece="<bos>",
    add_dummy_prefix=False,
    remove_extra_whitespaces=False,
    normalization_rule_name="identity",
  )
  pieces = sentencepiece.SentencePieceProcessor(model_file=str(file))
  vocabulary = {pieces.id_to_piece(i): i for i in range(len(pieces))}
  merges = []
  for piece, number in vocabulary.items():
    for cut in range(1, len(piece)):
      halves = piece[:cut], piece[cut:]
      if all(half in vocabulary for half in halves) and piece[0] != "<":
        merges.append((number, *(vocabulary[h] for h in halves), *halves))
  merges = [tuple(merge[3:]) for merge in sorted(merges)]
  tokenizer = transformers.Siglip2Tokenizer(
    vocab=vocabulary,
    merges=merges,
    mask_token=None,
    add_bos_token=False,
    add_eos_token=True,
    padding_side="right",
  )
  folder = FOLDER / "huggingface_siglip2"
  tokenizer.save_pretrained(folder)
  text = {"max_position_embeddings": LENGTH, "vocab_size": len(tokenizer)}
  config = {"model_type": "siglip2", "text_config": text}
  (folder / "config.json").write_text(json.dumps(config))
  save("huggingface_siglip2", padded(tokenizer, LENGTH))


def main() -> None:
  shutil.rmtree(FOLDER, ignore_errors=True)
  FOLDER.mkdir()
  (FOLDER / "texts.json").write_text(json.dumps(TEXTS))
  make_huggingface_clip(make_open_clip())
  make_siglip()
  make_siglip_2()
  for path in FOLDER.glob("*/tokenizer.json"):
    path.write_text(compact(path.read_text("utf-8")), "utf-8")


def compact(text: str) -> str:
  """JSON without line breaks and spaces, which are half of a tokenizer's."""
  return json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))


if __name__ == "__main__":
  main()
