"""The table of parameters that do not fit."""

import pytest

from vit_jax.errors import UserError
from vit_jax.weights import shape_mismatches
from vit_jax.weights.shape_mismatches import Misfit


def block(number, name="x", **others):
  parameter = f"Transformer/encoderblock_{number}/{name}"
  return Misfit(parameter, (2,), (3,), **others)


def test_columns_stand_below_each_other():
  lines = shape_mismatches.table(
    [Misfit("a", (1,), None, "why"), Misfit("long/name", None, (2, 3))]
  ).splitlines()
  assert lines == [
    "parameter  in the file  wanted     likely reason",
    "a          (1,)         not there  why",
    "long/name  not there    (2, 3)",
  ]


def test_without_reasons_there_is_no_column_for_them():
  assert "reason" not in shape_mismatches.table([Misfit("a", (1,), None)])


@pytest.mark.parametrize(
  ("numbers", "shown"),
  [([3], "_3/"), ([2, 0, 1], "_{0...2}/"), ([0, 1, 4], "_{0,1,4}/")],
)
def test_layers_that_misfit_alike_share_a_row(numbers, shown):
  lines = shape_mismatches.table(
    [block(number) for number in numbers]
  ).splitlines()
  assert len(lines) == 2 and shown in lines[1]


def test_layers_that_misfit_otherwise_have_rows_of_their_own():
  rows = [block(0), block(1, reason="why"), block(2, name="y")]
  assert len(shape_mismatches.table(rows).splitlines()) == 4


def test_a_long_table_is_cut_and_says_how_much_is_left():
  rows = [Misfit(f"p{i}", (1,), None) for i in range(100)]
  lines = shape_mismatches.table(rows).splitlines()
  assert len(lines) == 42 and lines[-1] == "... and 60 more"


def test_equal_shapes_pass_the_check_and_others_are_listed():
  shape_mismatches.check({"a": (1,)}, {"a": (1,)}, "x")
  with pytest.raises(UserError) as error:
    shape_mismatches.check(
      {"a": (1,), "b": (1,)}, {"a": (2,), "c": (3,)}, "A is not B"
    )
  first, _, *rows = str(error.value).splitlines()
  assert first == "A is not B: these parameters do not fit the others."
  assert [row.split()[0] for row in rows] == ["a", "b", "c"]
