"""Families side by side: what is of one is not taken for another."""

import pytest

from vit_jax.config import names
from vit_jax.registry import FAMILIES


@pytest.mark.parametrize("name", names.known())
def test_parameters_match_their_own_family_alone(name):
  model = names.find(name)
  paths = list(FAMILIES.get(model.name).shapes(model, 1000))
  matching = [
    family for family in FAMILIES.names() if FAMILIES.get(family).matches(paths)
  ]
  assert matching == [model.name]
