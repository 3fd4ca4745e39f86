import dataclasses

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from tensorflow_datasets.core import splits as tfds_splits

from vit_jax.data import splits
from vit_jax.errors import UserError

_SHARDS = {"train": [500, 505], "validation": [50], "test": [7]}


def _ranges(split, shards=_SHARDS):
  pieces = splits.resolve(split, shards, dataset="toy")
  return [(piece.name, piece.start, piece.stop) for piece in pieces]


@pytest.mark.parametrize(
  "split, expected",
  [
    ("train", [("train", 0, 1005)]),
    ("train[:99%]", [("train", 0, 995)]),
    ("train[99%:]", [("train", 995, 1005)]),
    ("train[-10:]", [("train", 995, 1005)]),
    ("train[:800]+validation[:20]", [("train", 0, 800), ("validation", 0, 20)]),
    ("train[1shard:]", [("train", 500, 1005)]),
    ("all", [("train", 0, 1005), ("validation", 0, 50), ("test", 0, 7)]),
    ("test[:10%]+validation[10%:20%]", [("test", 0, 1), ("validation", 5, 10)]),
  ],
)
def test_split_strings_mean_what_they_mean_in_tfds(split, expected):
  assert _ranges(split) == expected


@dataclasses.dataclass(frozen=True)
class _Info:
  """What TFDS's own parser asks of a split."""

  shard_lengths: list[int]

  @property
  def num_examples(self) -> int:
    return sum(self.shard_lengths)


def _of_tfds(split):
  """Pieces as TFDS finds them; None: it refuses, or there are none."""
  infos = {name: _Info(lengths) for name, lengths in _SHARDS.items()}
  try:
    parts = tfds_splits.AbstractSplit.from_spec(split).to_absolute(infos)
  except (ValueError, NotImplementedError):
    return None
  ranges = [
    (
      part.splitname,
      part.from_ or 0,
      infos[part.splitname].num_examples if part.to is None else part.to,
    )
    for part in parts
  ]
  return [piece for piece in ranges if piece[1] < piece[2]] or None


_NUMBER = st.one_of(
  st.integers(-110, 110),
  st.integers(-1100, 1100),
  st.floats(-105, 105).map("{:.1f}".format),
  st.just(""),
).map(str)
_BOUND = st.tuples(_NUMBER, st.sampled_from(["", "%", "shard"])).map("".join)
_SLICE = st.lists(_BOUND, min_size=1, max_size=3).map(":".join)
_NAME = st.sampled_from([*_SHARDS, "all", "dev"])
_PART = st.one_of(_NAME, st.tuples(_NAME, _SLICE).map("{0[0]}[{0[1]}]".format))


@hypothesis.given(st.lists(_PART, min_size=1, max_size=3).map(" + ".join))
def test_any_split_string_has_the_records_that_tfds_gives_it(split):
  try:
    found = _ranges(split)
  except UserError:
    found = None
  assert found == _of_tfds(split)


@pytest.mark.parametrize("num_examples", [7, 150, 1005, 1_281_167])
def test_percentages_cut_a_split_without_gap_or_overlap(num_examples):
  shards = {"train": [num_examples]}
  bounds = [0]
  for percent in range(0, 100, 10):
    split = f"train[{percent}%:{percent + 10}%]"
    try:
      ((_, start, stop),) = _ranges(split, shards)
    except UserError:  # Ten percent of 7 examples may be none.
      continue
    assert start == bounds[-1]
    bounds.append(stop)
  assert bounds[-1] == num_examples


@pytest.mark.parametrize("split", ["", "train[", "train[5]", "train[a:b]", "+"])
def test_malformed_split_is_a_sentence(split):
  with pytest.raises(UserError, match="is not a split string"):
    splits.parse(split)


def test_missing_split_names_those_that_are_there():
  with pytest.raises(UserError) as error:
    _ranges("dev[:10]")
  assert str(error.value) == (
    "toy has no split 'dev'. Present: train (1005 examples), validation (50"
    " examples), test (7 examples); 'train[:80%]' and 'train[80%:]' are parts"
    " of one, to train on and to evaluate on."
  )


@pytest.mark.parametrize(
  ("present", "asked", "meant"),
  [
    (("test", "train"), "trian", "train"),
    (("train", "val"), "test", "val"),
    (("train", "validation"), "val[:10]", "validation"),
    (("train", "test"), "validation", "test"),
    (("train", "test"), "valid[:8]", "test"),
    (("test", "train", "val"), "validation", "val"),
    (("train",), "test", None),
  ],
)
def test_a_split_that_was_meant_is_named(present, asked, meant):
  with pytest.raises(UserError) as error:
    splits.resolve(asked, dict.fromkeys(present, (10,)), dataset="toy")
  said = str(error.value)
  assert ("Did you mean" in said) == (meant is not None)
  assert meant is None or f"Did you mean {meant!r}?" in said
  assert "'train[:80%]' and 'train[80%:]'" in said


@pytest.mark.parametrize("split", ["test[:8]", "test[5:5]", "test[:1%]"])
def test_slice_that_cannot_be_filled_is_a_sentence(split):
  with pytest.raises(UserError, match=r"test \(7 examples\)"):
    _ranges(split)


def test_locate_follows_the_pieces_in_order():
  split = "test[2:]+train[:3]+train[1:2]"
  pieces = splits.resolve(split, _SHARDS, dataset="toy")
  ids = np.arange(splits.count(pieces))
  which, positions = splits.locate(pieces, ids)
  assert which.tolist() == [0] * 5 + [1] * 3 + [2]
  assert positions.tolist() == [2, 3, 4, 5, 6, 0, 1, 2, 1]
  order = np.random.default_rng(0).permutation(ids)
  np.testing.assert_array_equal(
    splits.locate(pieces, order)[1], positions[order]
  )
