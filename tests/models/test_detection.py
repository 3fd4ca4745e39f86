"""Counts of numbered modules."""

import re

import pytest

from vit_jax.models import detection

LAYER = re.compile(r"layer_(\d+)/")


@pytest.mark.parametrize(
  ("numbers", "count"),
  [([], 0), ([0], 1), ([0, 1, 2], 3), ([0, 2, 2], 3), ([0, 1, 10**9], 2)],
)
def test_layers_are_counted_up_to_what_names_can_bear_out(numbers, count):
  names = [f"layer_{number}/x" for number in numbers]
  assert detection.count(LAYER, names, 0) == count


def test_units_of_each_stage():
  names = ["block1/unit1/a", "block1/unit2/a", "block2/unit01/a", "head"]
  assert detection.units(names) == (2, 1)
  assert detection.units(["head"]) == ()
