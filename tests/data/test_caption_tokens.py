"""The declared feature `text`, from the config to the tokens."""

import dataclasses
import sys
import types

import jax
import numpy as np
import pytest

import vit_jax
from tests.data.caption_pairs import ByteTokenizer, texts_of
from tests.data.test_pipeline import take, train_batches
from vit_jax.config import named_sections, schema
from vit_jax.data import (
  caption_tokens,
  facts,
  features,
  order,
  sources,
  spec,
)
from vit_jax.errors import UserError
from vit_jax.objectives import build as objectives_build

TOKENIZE = "decode|resize|tokenize"


class Tower(schema.Section):
  length: int = 7
  vocab_size: int = 300


class TwoTowers(schema.Model):
  text: Tower = Tower()


def config(preprocess=TOKENIZE, tower=None, **train):
  model = named_sections.section("model", image_size=16)
  if tower:
    model = TwoTowers(name="two", image_size=16, text=tower)
  train = schema.Train(preprocess=preprocess, **train)
  return schema.Config(model=model, train=train, total_steps=1)


class Pairs(sources.Source):
  """Five grey pictures whose captions are one, two, ... five words."""

  num_examples = 5
  fingerprint = "pairs"
  features = {"image": sources.Image((16, 16, 3)), "text": sources.Text()}

  def read(self, ids):
    text = np.empty(len(ids), object)
    text[:] = [tuple(f"{i} {k}" for k in range(i + 1)) for i in ids]
    return {"image": np.zeros((len(ids), 16, 16, 3), np.uint8), "text": text}

  def names(self, ids):
    return [f"pair {i}" for i in ids]


@pytest.fixture
def tokenizers(monkeypatch):
  """Files that the stand-in for `vit_jax.tokenization` loads."""
  files = {"small": ByteTokenizer(), "large": ByteTokenizer(vocab_size=400)}
  module = types.ModuleType("vit_jax.tokenization.load")
  module.load_tokenizer = lambda path, length=None: dataclasses.replace(
    files[path], length=length
  )
  for name in ("vit_jax.tokenization", "vit_jax.tokenization.load"):
    monkeypatch.setitem(sys.modules, name, module)


def test_a_batch_declares_int32_text_of_the_towers_length():
  parsed = features.parse(config(tower=Tower()))
  assert parsed.batch_spec(8) == {
    "image": jax.ShapeDtypeStruct((8, 16, 16, 3), np.uint8),
    "text": jax.ShapeDtypeStruct((8, 7), np.int32),
    "label": jax.ShapeDtypeStruct((8,), np.int32),
  }
  _, without_labels = parsed.suited_to(None, 0)
  assert without_labels.names == ("image", "text")


def test_the_op_may_say_the_length():
  for tower in (None, Tower()):
    parsed = features.parse(config("decode|resize|tokenize(5)", tower))
    assert parsed.batch_spec(8)["text"].shape == (8, 5)


def test_views_share_the_text():
  changed = config("decode|tokenize(5)", views={"pair": schema.View(count=2)})
  assert features.parse(changed).example_spec()["text"] == ((5,), np.int32)


@pytest.mark.parametrize(
  ("preprocess", "says"),
  [
    ("decode|tokenize", "op 2 .* no text tower .* tokenize\\(64\\)"),
    ("decode|tokenize(0)", "length = 0 is not valid"),
    ("decode|tokenize(4)|tokenize(5)", "op 3 .* is given twice"),
    ("decode|tokenize(4)|keep('image')", "keep.* drops what tokenize makes"),
  ],
)
def test_what_cannot_be_is_a_sentence(preprocess, says):
  with pytest.raises(UserError, match=says):
    features.parse(config(preprocess))


def test_more_tokens_than_the_tower_takes_are_refused():
  says = "makes 8 tokens, but config.model.text.length = 7"
  with pytest.raises(UserError, match=says):
    features.parse(config("decode|tokenize(8)", Tower()))


def test_a_view_does_not_make_text():
  view = {"pair": schema.View(preprocess="decode|resize|tokenize(4)")}
  with pytest.raises(UserError, match="makes text, which all views share"):
    features.parse(config("decode", views=view))


def test_an_evaluation_does_not_draw_captions():
  with pytest.raises(UserError, match="tokenize.* draws captions for training"):
    spec.check(TOKENIZE, 16, train=False)


def test_keep_may_drop_labels_and_leave_text():
  parsed = features.parse(
    config("decode|resize|tokenize(4)|keep('image', 'text')")
  )
  assert parsed.names == ("image", "text")


def test_each_row_draws_on_its_own_and_again_the_same():
  declared = features.parse(config("decode|resize|tokenize(4)")).captions
  make = caption_tokens.CaptionTokens(
    declared, seed=3, tokenizer=ByteTokenizer(4)
  )
  rows = np.arange(4000)
  texts = np.empty(len(rows), object)
  texts[:] = [("a", "b", "c", "d")] * len(rows)
  drawn = make(texts, rows)
  assert drawn.dtype == np.int32 and drawn.shape == (4000, 4)
  # Any part of the rows, in any order, gives the same.
  part = rows[[77, 3, 3999]]
  assert np.array_equal(make(texts[:3], part), drawn[part])
  counts = [texts_of(drawn).count(letter) for letter in "abcd"]
  # 1000 expected of each; five standard deviations are 137.
  assert all(863 < count < 1137 for count in counts)
  other = caption_tokens.CaptionTokens(
    declared, seed=4, tokenizer=ByteTokenizer(4)
  )
  assert 0.6 < (other(texts, rows) != drawn).any(1).mean() < 0.9


def test_facts_of_pairs_have_no_classes_and_name_the_tokenizer(tokenizers):
  made = config(tower=Tower(), tokenizer="small")
  found = facts.of_source(made, Pairs())
  assert found.num_classes is None and found.class_names is None
  assert found.features.names == ("image", "text")
  assert found.fingerprint == "pairs:tokens:bytes"


def test_batches_are_as_declared_with_and_without_data():
  made = config(
    tower=Tower(),
    dataset="generated:classes=4,size=16,examples=64,captions=2",
    tokenizer="bytes",
  )
  source = facts.open_data(made)
  found = facts.of_source(made, source)
  spec = found.features.batch_spec(8)
  assert facts.without_data(made).features.batch_spec(8) == spec
  (batch,) = take(train_batches(source, features=found.features), 1)
  assert {name: (x.shape, x.dtype) for name, x in batch.items()} == {
    name: (leaf.shape, leaf.dtype) for name, leaf in spec.items()
  }
  ids, _ = order.example_ids(np.arange(8), 64, seed=3)
  tokenizer = vit_jax.load_tokenizer("bytes", length=7)
  for tokens, texts in zip(batch["text"], source.captions(ids), strict=True):
    assert any(np.array_equal(tokens, made) for made in tokenizer(list(texts)))


def test_a_tokenizer_of_another_vocabulary_is_refused(tokenizers):
  made = config(tower=Tower(), tokenizer="large")
  says = "'large' has 400 tokens, but config.model.text.vocab_size = 300"
  with pytest.raises(UserError, match=says):
    facts.of_source(made, Pairs())


def test_a_tokenizer_is_asked_for():
  with pytest.raises(UserError, match="tokenize.* needs a tokenizer; name its"):
    facts.of_source(config(tower=Tower()), Pairs())


def test_a_dataset_without_captions_is_a_sentence():
  made = config(tower=Tower(), dataset="generated:size=16")
  with pytest.raises(UserError, match="'generated:size=16' has no captions"):
    facts.of_source(made, facts.open_data(made))


@pytest.mark.parametrize(
  "dataset", ["captions", "webdataset:cc3m-{000..331}.tar", "coco_captions"]
)
def test_pairs_are_declared_without_data(dataset):
  found = facts.without_data(config(tower=Tower(), dataset=dataset))
  assert found.num_classes is None
  assert found.features.names == ("image", "text")


def test_an_objective_that_needs_labels_says_that_there_are_none(tokenizers):
  made = config(tower=Tower(), dataset="captions", tokenizer="small")
  found = facts.of_source(made, Pairs())
  says = "'captions' has no labels, which objective \"supervised\" learns from"
  with pytest.raises(UserError, match=says):
    objectives_build.check(made, found.features)


def test_ops_of_labels_need_labels():
  parsed = features.parse(config("decode|resize|pad_labels(3)"))
  with pytest.raises(UserError, match="op 3 .* changes classes, and the data"):
    parsed.suited_to(None, 0)
