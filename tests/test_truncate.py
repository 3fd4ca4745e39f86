import pytest

from vit_jax import truncate


@pytest.mark.parametrize(
  ("count", "expected"),
  [(3, "a, b, c"), (2, "a, b and 1 more"), (1, "a and 2 more")],
)
def test_a_long_list_ends_with_the_number_of_others(count, expected):
  assert truncate.first(["a", "b", "c"], count) == expected


def test_texts_that_have_commas_are_set_apart():
  assert truncate.first(["a, b", "c", "d"], 2, "; ") == "a, b; c; and 1 more"


def test_no_texts_are_nothing():
  assert truncate.first([]) == ""
