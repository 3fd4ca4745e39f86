"""Names of BEiTs stand for the networks of microsoft/unilm."""

import pytest

from vit_jax.config import names
from vit_jax.errors import UserError
from vit_jax.models.vit import beit_names, shapes
from vit_jax.registry import FAMILIES


@pytest.mark.parametrize(
  ("name", "image_size", "start", "normalize", "count"),
  # Parameters as timm 1.0.31 counts them.
  [
    ("BEiT-B/16", 224, 0.1, "minus_one_to_one", 86_530_984),
    ("BEiT-L/16", 224, 1e-5, "minus_one_to_one", 304_430_568),
    ("BEiT-L/16", 512, 1e-5, "minus_one_to_one", 305_674_728),
    ("BEiTv2-B/16", 224, 1e-5, "imagenet", 86_530_984),
    ("BEiTv2-L/16", 224, 1e-5, "imagenet", 304_430_568),
  ],
)
def test_published_names_are_found(name, image_size, start, normalize, count):
  model = names.find(name).model_copy(update={"image_size": image_size})
  assert (model.layer_scale, model.normalize) == (start, normalize)
  assert name in names.known() and name in beit_names.NAMES
  FAMILIES.get("vit").check(model)
  assert shapes.num_params(model, 1000) == count


def test_tables_follow_the_learning_rate_of_their_layer():
  family, model = FAMILIES.get("vit"), names.find("BEiT-B/16")
  table = "relative_bias/table"
  layer = f"Transformer/encoderblock_3/{table}"
  assert family.layer_of(model, layer) == 3
  # As get_num_layer_for_vit of the authors has it.
  assert family.layer_of(model, f"Transformer/{table}") is None


def test_other_names_are_none():
  with pytest.raises(UserError, match="BEiT"):
    names.find("BEiT-Q/16")
