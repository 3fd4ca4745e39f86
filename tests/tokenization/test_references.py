"""Ids of 1,000 odd captions beside those of transformers and open_clip.

The programs need torch, which the tests do not; CLIP's published merges lie in
open_clip's package.
"""

import json
import shutil

import numpy as np
import pytest

import vit_jax
from tests.tokenization import odd_texts

pytestmark = pytest.mark.exhaustive
TEXTS = odd_texts.texts(1000)


@pytest.fixture(scope="module")
def open_clip():
  pytest.importorskip("open_clip")
  from open_clip import tokenizer

  return tokenizer


@pytest.fixture(scope="module")
def transformers():
  return pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def golden(repo):
  return repo / "tests/golden/tokenizers"


@pytest.mark.parametrize("clean", ["lower", "whitespace", "canonicalize"])
def test_ids_of_published_merges_equal_open_clips(open_clip, clean, tmp_path):
  shutil.copy(open_clip.default_bpe(), tmp_path)
  text = {"context_length": 77, "vocab_size": 49408}
  text["tokenizer_kwargs"] = {"clean": clean}
  config = {"model_cfg": {"text_cfg": text}}
  (tmp_path / "open_clip_config.json").write_text(json.dumps(config))
  theirs = open_clip.SimpleTokenizer(clean=clean)(TEXTS).numpy()
  ours = vit_jax.load_tokenizer(tmp_path)
  np.testing.assert_array_equal(ours(TEXTS), theirs)


def padded(tokenizer, length):
  return tokenizer(
    TEXTS, padding="max_length", max_length=length, truncation=True
  ).input_ids


def test_ids_of_published_merges_equal_transformers(
  open_clip, transformers, tmp_path
):
  plain = open_clip.SimpleTokenizer()
  names = {"<start_of_text>": "<|startoftext|>"}
  names["<end_of_text>"] = "<|endoftext|>"
  theirs = transformers.CLIPTokenizer(
    vocab={names.get(k, k): v for k, v in plain.encoder.items()},
    merges=list(plain.bpe_ranks),
  )
  theirs.save_pretrained(tmp_path)
  ours = vit_jax.load_tokenizer(tmp_path)
  np.testing.assert_array_equal(ours(TEXTS), padded(theirs, 77))


@pytest.mark.parametrize(
  ("form", "name", "length"),
  [
    ("huggingface_clip", "CLIPTokenizer", 24),
    ("huggingface_clip_old", "CLIPTokenizer", 24),
    ("huggingface_siglip", "SiglipTokenizer", 16),
    ("huggingface_siglip2", "Siglip2Tokenizer", 24),
  ],
)
def test_ids_of_small_vocabularies_equal_transformers(
  transformers, golden, form, name, length
):
  theirs = getattr(transformers, name).from_pretrained(golden / form)
  ours = vit_jax.load_tokenizer(golden / form)
  np.testing.assert_array_equal(ours(TEXTS), padded(theirs, length))
