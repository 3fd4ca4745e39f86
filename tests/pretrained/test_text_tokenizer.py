"""Tokenizers of checkpoints: which are doubted."""

import dataclasses
import json
import pathlib
import shutil

import jax
import pytest

import vit_jax
from tests import clip_checkpoint
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.pretrained import (
  inference,
  reading,
  run_files,
  start,
  text_tokenizer,
)


@pytest.fixture
def run(tmp_path):
  """A small CLIP as the first step of a run with a tokenizer of bytes."""
  clip_checkpoint.save(tmp_path / "clip")
  kept = tmp_path / "run" / "tokenizer"
  kept.mkdir(parents=True)
  for name, content in vit_jax.load_tokenizer("bytes").files.items():
    (kept / name).write_bytes(content)
  use = inference.read(str(tmp_path / "clip"))
  return dataclasses.replace(use, step=1), str(tmp_path / "run")


def test_a_runs_own_tokenizer_with_fewer_pieces_is_not_doubted(run, caplog):
  use, checkpoint = run
  found = text_tokenizer.read(use, checkpoint)
  assert found.vocab_size < use.weights.model.text.vocab_size
  assert not caplog.messages


def test_a_tokenizer_of_the_config_is_doubted_if_it_is_another(run, caplog):
  _, checkpoint = run
  text_tokenizer.warn_of_another("bytes", checkpoint, length=16, num_tokens=999)
  assert not caplog.messages  # It is the run's own.
  weights = str(pathlib.Path(checkpoint).parent / "clip")
  text_tokenizer.warn_of_another("bytes", weights, length=16, num_tokens=258)
  assert not caplog.messages
  text_tokenizer.warn_of_another("bytes", weights, length=16, num_tokens=999)
  (line,) = caplog.messages
  assert "has 258 tokens" in line and "knows 999" in line
  assert "--config.train.tokenizer=PATH" in line


def test_a_tokenizer_that_is_not_there_is_named_with_its_key(run):
  with pytest.raises(UserError, match=r"^config.train.tokenizer = 'gone': The"):
    text_tokenizer.warn_of_another("gone", run[1], length=16, num_tokens=258)


def test_another_tokenizer_for_a_run_is_doubted(run, caplog):
  text_tokenizer.read(*run, path="bytes")
  (line,) = caplog.messages
  assert "answers mean nothing" in line


@pytest.mark.parametrize("tokenizer", ["bytes", "its own"])
def test_a_text_tower_kept_for_another_tokenizer_is_doubted(
  tokenizer, tmp_path, caplog
):
  path = str(tmp_path / "clip")
  clip_checkpoint.save(tmp_path / "clip")
  weights = reading.read(path)
  named = tokenizer if tokenizer == "bytes" else path
  config = schema.Config(
    total_steps=1,
    model=weights.model,
    init_from=path,
    objective=schema.Contrastive(),
    train=schema.Train(dataset="generated:captions=1", tokenizer=named),
  )
  start.find(config, jax.eval_shape(lambda: weights.params))
  assert ("bytes has 258 tokens" in caplog.text) == (named == "bytes")


@pytest.fixture
def reordered(run):
  """The tokenizer of `run`'s CLIP with two pieces exchanged."""
  clip = pathlib.Path(run[1]).parent / "clip"
  folder = clip.with_name("reordered")
  shutil.copytree(clip, folder)
  content = json.loads((folder / "tokenizer.json").read_text())
  vocabulary = content["model"]["vocab"]
  a, b = vocabulary["a</w>"], vocabulary["b</w>"]
  vocabulary |= {"a</w>": b, "b</w>": a}
  (folder / "tokenizer.json").write_text(json.dumps(content))
  return str(clip), str(folder)


def test_a_tokenizer_of_the_same_size_with_other_tokens_is_doubted(
  reordered, caplog
):
  clip, other = reordered
  size = vit_jax.load_tokenizer(clip).vocab_size
  assert vit_jax.load_tokenizer(other).vocab_size == size
  text_tokenizer.warn_of_another(clip, clip, length=16, num_tokens=size)
  text_tokenizer.read(inference.read(clip), clip, path=clip)
  assert "answers mean nothing" not in caplog.text
  text_tokenizer.warn_of_another(other, clip, length=16, num_tokens=size)
  text_tokenizer.read(inference.read(clip), clip, path=other)
  named, given = (m for m in caplog.messages if "answers mean nothing" in m)
  for line in (named, given):
    assert f"{other} has other tokens than that of {clip}" in line
  assert "--config.train.tokenizer=PATH" in named
  assert "--tokenizer=PATH" in given


def test_another_tokenizer_than_a_runs_is_doubted_even_of_its_size(
  reordered, tmp_path, caplog
):
  clip, other = reordered
  run_files.write_tokenizer(tmp_path / "kept", vit_jax.load_tokenizer(clip))
  size = vit_jax.load_tokenizer(clip).vocab_size
  for path in (clip, other):
    run = str(tmp_path / "kept")
    text_tokenizer.warn_of_another(path, run, length=16, num_tokens=size)
  (line,) = caplog.messages
  assert f"{other} has other tokens" in line


@pytest.mark.parametrize(
  ("one", "other", "alike"),
  [
    ("huggingface_clip", "open_clip", True),
    ("huggingface_clip", "huggingface_clip_old", True),
    ("huggingface_siglip", "huggingface_siglip/spiece.model", True),
    ("huggingface_siglip2", "huggingface_siglip2/tokenizer.model", True),
    ("huggingface_siglip", "huggingface_siglip2", False),
    ("huggingface_siglip", "huggingface_clip", False),
    ("bytes", "bytes", True),
    ("bytes", "open_clip", False),
  ],
)
def test_libraries_files_of_one_tokenizer_have_the_same_pieces(
  repo, one, other, alike
):
  golden = repo / "tests" / "golden" / "tokenizers"

  def load(path):
    return vit_jax.load_tokenizer(path if path == "bytes" else golden / path)

  assert load(one).has_pieces_of(load(other)) == alike
