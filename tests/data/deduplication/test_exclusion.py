"""What a file lists is left out of a source; the rest stays in its order."""

import json

import numpy as np
import pytest

from vit_jax.data import sources
from vit_jax.data.deduplication import exclusion
from vit_jax.errors import UserError

KEY = "config.train.exclude"


def listed(path, source, examples):
  exclusion.write(path, source, examples)
  return exclusion.without(source, str(path), key=KEY)


@pytest.mark.parametrize(
  "examples", [[], [0], [23], [0, 1, 2], [5, 3, 3, 22], list(range(1, 24))]
)
def test_the_others_remain_in_their_order(raw, tmp_path, examples):
  remaining = listed(tmp_path / "list.json", raw, examples)
  kept = [i for i in range(24) if i not in examples]
  assert remaining.num_examples == len(kept)
  ids = np.arange(len(kept))
  batch = remaining.read(ids)
  np.testing.assert_array_equal(batch["image"][:, 0, 0, 0], kept)
  np.testing.assert_array_equal(batch["label"], np.array(kept) % 10)
  assert remaining.names(ids) == raw.names(kept)
  np.testing.assert_array_equal(
    remaining.read(ids[::-1])["label"], batch["label"][::-1]
  )


def test_it_is_a_source_that_says_what_is_left_out(raw, tmp_path):
  prints = {raw.fingerprint}
  for examples in ([1], [2], [1, 2]):
    remaining = listed(tmp_path / "list.json", raw, examples)
    assert isinstance(remaining, sources.Source)
    assert remaining.image_shape == raw.image_shape
    assert remaining.num_classes == raw.num_classes
    prints.add(remaining.fingerprint)
  assert len(prints) == 4


def test_files_are_still_named_to_tensorflow_where_they_were(tmp_path, encode):
  for number in range(6):
    path = tmp_path / f"photos/train/{'ab'[number % 2]}/{number}.jpg"
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.full((8, 8, 3), 40 * number, np.uint8)
    path.write_bytes(encode(pixels, "JPEG"))
  source = sources.open_source("folder", "train", data_dir=f"{tmp_path}/photos")
  remaining = listed(tmp_path / "list.json", source, [2])
  ids = np.arange(5)
  expected = source.read_or_locate(np.array([0, 1, 3, 4, 5]))
  for name, values in remaining.read_or_locate(ids).items():
    np.testing.assert_array_equal(values, expected[name])


@pytest.mark.parametrize(
  "content, sentence",
  [
    ("[", "is not a list of examples"),
    ("[3]", "is not a list of examples"),
    ('{"source": "memory"}', "is not a list of examples"),
    ('{"source": "memory", "examples": [1.5]}', "is not a list of examples"),
    ('{"source": "digits", "examples": []}', "was made of other data .digits."),
    ('{"source": "memory", "examples": [24]}', "lists example 24; .* 0 to 23"),
    ('{"source": "memory", "examples": [-1]}', "lists example -1"),
    (
      json.dumps({"source": "memory", "examples": list(range(24))}),
      "lists all examples",
    ),
  ],
)
def test_a_list_that_does_not_fit_is_refused(raw, tmp_path, content, sentence):
  path = tmp_path / "list.json"
  path.write_text(content)
  with pytest.raises(UserError, match=f"{KEY} = .*list.json' {sentence}"):
    exclusion.without(raw, str(path), key=KEY)


def test_a_list_that_is_not_there_is_named(raw, tmp_path):
  with pytest.raises(UserError, match=r"list.json' cannot be read \(No such"):
    exclusion.without(raw, str(tmp_path / "list.json"), key=KEY)
