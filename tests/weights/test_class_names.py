"""Names of a checkpoint's classes next to those of a dataset."""

import pytest

from vit_jax.weights import class_names

DATA = ["cat", "dog", "ship"]


@pytest.mark.parametrize(
  "found",
  [
    None,
    DATA,
    tuple(DATA),
    # One was renamed; the others stand where they stood.
    ["cat", "hound", "ship"],
  ],
)
def test_names_that_may_mean_the_same_do_not_differ(found):
  assert class_names.difference(DATA, found) is None
  assert class_names.difference(found, DATA) is None


def test_names_with_nothing_in_common_are_shown():
  text = class_names.difference(DATA, ["elm", "fir", "oak", "yew"])
  assert "(elm, fir, oak and 1 more)" in text and "(cat, dog, ship)" in text


def test_a_name_of_another_number_is_shown_with_both_numbers():
  text = class_names.difference(DATA, ["dog", "cat", "ship"])
  assert "'cat' is class 1 there and class 0 here" in text
  assert "(dog, cat, ship)" in text


def test_names_that_occur_twice_decide_nothing():
  assert class_names.difference(["a", "b", "c"], ["c", "b", "c"]) is None
  assert "c, d, c" in class_names.difference(["a", "b", "c"], ["c", "d", "c"])


@pytest.mark.parametrize(
  "codes",
  [["n01440764", "n01443537"], ["0", "1"], ["LABEL_0", "LABEL_1"]],
)
def test_codes_and_words_are_not_compared(codes):
  words = ["tench", "goldfish"]
  assert class_names.difference(codes, words) is None
  assert class_names.difference(words, codes) is None
  assert class_names.difference(codes, ["7", "8"]) is None
