"""Tokenizers of checkpoints: which are doubted."""

import dataclasses
import pathlib

import jax
import pytest

import vit_jax
from tests import clip_checkpoint
from vit_jax.config import schema
from vit_jax.pretrained import inference, reading, start, text_tokenizer


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
