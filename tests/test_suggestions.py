"""Misspelt names are answered with the nearest."""

import pytest

from vit_jax.suggestions import did_you_mean


@pytest.mark.parametrize(
  ("name", "nearest"),
  [("adamW", "adamw"), ("sdg", "sgd"), ("SGD", "sgd"), ("xyzzy", None)],
)
def test_the_nearest_known_name_is_suggested(name, nearest):
  assert did_you_mean(name, ["adamw", "sgd", "lamb"]) == nearest
