"""Tokenizers learnt from captions."""

import json
import random

import numpy as np
import pytest
import sentencepiece

import vit_jax
from vit_jax.errors import UserError
from vit_jax.tokenization import learn

WORDS = (
  "a photo of the red blue cat dog house tree, it's small &amp; big".split()
)


@pytest.fixture
def captions(tmp_path):
  draw = random.Random(0)
  lines = [" ".join(draw.choices(WORDS, k=9)) for _ in range(400)]
  file = tmp_path / "captions.txt"
  file.write_text("\n".join([*lines, "", "  "]))
  return str(file)


def test_pairs_give_frequent_words_one_id_and_read_back(captions, tmp_path):
  tokenizer = learn.learn(captions, "bpe", 700, length=12)
  ids = tokenizer(["A Photo of the CAT", "\U0001f600"])
  start, end = tokenizer.settings.begin[0], tokenizer.settings.end[0]
  assert (start, end) == (tokenizer.vocab_size - 2, tokenizer.vocab_size - 1)
  assert ids[0, [0, 6]].tolist() == [start, end]
  assert (ids[0, 7:] == 0).all()
  assert (ids[1, 1:5] < 512).all() and ids[1, 5] == end
  learn.write(tokenizer, str(tmp_path / "out"))
  assert vit_jax.load_tokenizer(tmp_path / "out") == tokenizer


def test_pairs_keep_to_the_size(captions):
  assert learn.learn(captions, "bpe", 520).vocab_size == 520


def test_pieces_are_those_of_sentencepiece(captions, tmp_path):
  tokenizer = learn.learn(captions, "sentencepiece", 60, length=16)
  learn.write(tokenizer, str(tmp_path / "out"))
  again = vit_jax.load_tokenizer(tmp_path / "out")
  pieces = sentencepiece.SentencePieceProcessor(
    model_file=str(tmp_path / "out" / "spiece.model")
  )
  ids = [*pieces.encode("a photo of the cat"), 1]
  assert again("A photo of the cat")[0].tolist() == ids + [1] * (16 - len(ids))
  assert again.vocab_size == len(pieces) <= 60


def test_json_lines_hold_one_caption_or_several(tmp_path):
  file = tmp_path / "captions.jsonl"
  rows = [{"caption": "a cat"}, {"text": ["a dog", " "]}, {"caption": "end"}]
  file.write_text("\n".join(map(json.dumps, rows)))
  assert list(learn.captions(str(file))) == ["a cat", "a dog", "end"]


@pytest.mark.parametrize(
  ("name", "lines"),
  [
    ("captions.txt", ["a cat", "a dog"]),
    ("captions.jsonl", ['{"text": "a cat"}', '{"text": "a dog"}']),
  ],
)
def test_a_byte_order_mark_is_no_part_of_a_caption(name, lines, tmp_path):
  file = tmp_path / name
  file.write_text("\n".join(lines), encoding="utf-8-sig")
  assert list(learn.captions(str(file))) == ["a cat", "a dog"]


def test_keys_without_a_value_are_passed_over(tmp_path):
  file = tmp_path / "captions.jsonl"
  file.write_text('{"caption": null, "text": "a cat"}\n')
  assert list(learn.captions(str(file))) == ["a cat"]


@pytest.mark.parametrize(
  ("name", "content", "message"),
  [
    ("c.txt", b"fine\n\xff\xfe\n", "c.txt:2 is not UTF-8"),
    ("c.jsonl", b'{"caption": "a"}\n{"label": 3}\n', "c.jsonl:2 is not a JSON"),
    ("c.jsonl", b"[1, 2]\n", "c.jsonl:1 is not a JSON"),
    ("c.csv", b"a\n", "must be a .txt or .jsonl"),
  ],
)
def test_a_bad_line_is_named(tmp_path, name, content, message):
  (tmp_path / name).write_bytes(content)
  with pytest.raises(UserError, match=message):
    list(learn.captions(str(tmp_path / name)))


@pytest.mark.parametrize("kind", ["bpe", "sentencepiece"])
def test_captions_without_text_are_a_sentence(tmp_path, kind):
  (tmp_path / "none.txt").write_text("\n \n")
  with pytest.raises(UserError, match="none.txt"):
    learn.learn(str(tmp_path / "none.txt"), kind, 1000)


def test_too_few_pieces_are_a_sentence(captions):
  with pytest.raises(UserError, match="give 515 or more"):
    learn.learn(captions, "bpe", 300)
  with pytest.raises(UserError, match="above the number of their letters"):
    learn.learn(captions, "sentencepiece", 5)


def test_another_tokenizer_is_not_written_over(captions, tmp_path):
  learn.write(learn.learn(captions, "bpe", 600), str(tmp_path / "out"))
  with pytest.raises(UserError, match="is another tokenizer"):
    learn.write(learn.learn(captions, "bpe", 530), str(tmp_path / "out"))


def test_a_place_that_is_no_directory_is_a_sentence(captions, tmp_path):
  (tmp_path / "file").write_text("")
  with pytest.raises(UserError, match="file is a file; name a directory"):
    learn.check_output(str(tmp_path / "file"))
  found = learn.learn(captions, "bpe", 600)
  with pytest.raises(UserError, match="file/out cannot be written"):
    learn.write(found, str(tmp_path / "file" / "out"))


def test_ids_stay_the_same_when_learnt_again(captions):
  found = [learn.learn(captions, "bpe", 600) for _ in range(2)]
  np.testing.assert_array_equal(*(t(["a red cat"]) for t in found))
  assert found[0].fingerprint == found[1].fingerprint


def test_the_list_of_a_folder_of_captions_is_read(tmp_path):
  file = tmp_path / "train.jsonl"
  rows = [
    {"image": "1.jpg", "captions": ["a dog", "a brown dog"]},
    {"image": "2.jpg", "title": "a cat"},
  ]
  file.write_text("\n".join(map(json.dumps, rows)))
  assert list(learn.captions(str(file))) == ["a dog", "a brown dog", "a cat"]
