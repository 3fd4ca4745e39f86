"""A head that is kept for data whose classes or numbers have other names."""

import pytest

import vit_jax
from tests import experiments
from tests.models import networks
from vit_jax.errors import UserError
from vit_jax.pretrained import start

NAMES = ["ant", "bee", "cat", "dog"]
KEYS = dict(variant="Ti/4", width=32, depth=2, num_heads=4, mlp_dim=64)


def found(tmp_path, there, names, **changes):
  """Starts a run on `names` from a network that predicts `there`."""
  numbers = changes.get("objective__loss") == "mse"
  network = networks.tiny(num_classes=2 if numbers else 4, **KEYS)
  path = tmp_path / "x.npz"
  vit_jax.save(
    str(path),
    network,
    networks.random_params(network),
    **{"numbers" if numbers else "class_names": there},
  )
  parts = experiments.build(init_from=str(path), **changes)
  state = parts.abstract_state
  return start.find(parts.config, state.params, state.objective_state, names)


@pytest.mark.parametrize(
  ("there", "words"),
  [
    (NAMES, ()),
    (["ant", "bee", "cat", "fox"], ()),
    (["elm", "fir", "oak", "yew"], ("elm, fir, oak", "ant, bee, cat")),
    (["bee", "ant", "cat", "dog"], ("'ant' is class 1 there",)),
    (None, ()),
  ],
)
def test_a_head_of_other_classes_is_doubted(there, words, tmp_path, caplog):
  found(tmp_path, there, NAMES)
  for word in words and (*words, "config.init_from", "config.init_without"):
    assert word in caplog.text
  assert ("its head is kept" in caplog.text) == bool(words)


def test_a_new_head_is_not_compared(tmp_path, caplog):
  there = ["elm", "fir", "oak", "yew"]
  found(tmp_path, there, NAMES, init_without=("head/.*",))
  assert "its head is kept" not in caplog.text


@pytest.mark.parametrize("there", [["b", "a"], ["a", "c"]])
def test_a_head_of_other_numbers_is_refused(there, tmp_path):
  numbers = experiments.REGRESSION
  found(tmp_path, ["a", "b"], ["a", "b"], **numbers)
  found(tmp_path, there, ["a", "b"], init_without=("head/.*",), **numbers)
  with pytest.raises(UserError) as caught:
    found(tmp_path, there, ["a", "b"], **numbers)
  for word in ("config.init_from", ", ".join(there), "config.init_without"):
    assert word in str(caught.value)
