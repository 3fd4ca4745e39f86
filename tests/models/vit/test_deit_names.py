"""Names of DeiTs stand for the networks of facebookresearch/deit."""

import pytest

from vit_jax.config import names
from vit_jax.errors import UserError
from vit_jax.registry import FAMILIES


@pytest.mark.parametrize(
  ("name", "millions"),
  # Tables of the repository's README.md and README_deit.md.
  [
    ("DeiT-Ti/16", 5),
    ("DeiT-S/16", 22),
    ("DeiT-B/16", 86),
    ("DeiT-Ti/16-distilled", 6),
    ("DeiT-S/16-distilled", 22),
    ("DeiT-B/16-distilled", 87),
    ("DeiT3-S/16", 22.1),
    ("DeiT3-M/16", 38.8),
    ("DeiT3-B/16", 86.6),
    ("DeiT3-L/16", 304.4),
    ("DeiT3-H/14", 632.1),
  ],
)
def test_networks_have_the_published_number_of_parameters(name, millions):
  model = names.find(name)
  found = FAMILIES.get("vit").num_params(model, 1000) / 1e6
  # Millions are cut in the first table, and rounded in the second.
  assert found == pytest.approx(millions, abs=0.06 if "3" in name else 1)
  assert (model.gelu, model.normalize) == ("exact", "imagenet")


def test_the_third_has_layer_scale_and_no_position_of_the_class_token():
  model = names.find("DeiT3-B/16")
  assert (model.layer_scale, model.cls_position) == (1e-4, False)
  assert model.stochastic_depth == "constant"
  assert names.find("DeiT-B/16").layer_scale is None


def test_the_third_has_no_distillation_token():
  with pytest.raises(UserError, match="DeiT3-B/16-distilled"):
    names.find("DeiT3-B/16-distilled")
