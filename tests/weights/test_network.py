"""Parameters that are not a network, or not a whole one."""

import numpy as np
import pytest

from tests.models import networks
from vit_jax.errors import UserError
from vit_jax.weights import flat, network


def test_families_that_can_be_recognised_are_named():
  with pytest.raises(UserError) as caught:
    network.detect({"stem/kernel": np.ones((2, 2))}, "x.npz", {})
  said = str(caught.value)
  assert said.endswith("Its parameters: stem/kernel.")
  for title in (
    "Vision Transformer",
    "ResNet",
    "Swin",
    "ConvNeXt",
    "two-tower",
  ):
    assert title in said


def test_a_swin_without_its_stem_is_not_told_to_be_another_network():
  params = networks.random_params(networks.tiny_swin())
  without = {
    name: x
    for name, x in flat.flatten(params).items()
    if not name.startswith("stem/conv")
  }
  with pytest.raises(UserError, match="no stem/conv/kernel") as caught:
    network.detect(without, "x.npz", {})
  assert "not hold a complete network" in str(caught.value)
  assert "Vision Transformer" not in str(caught.value)
