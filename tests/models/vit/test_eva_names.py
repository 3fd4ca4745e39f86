"""Names of EVA-02 stand for the networks of baaivision/EVA."""

import pytest

from vit_jax.config import names
from vit_jax.errors import UserError
from vit_jax.models.vit import eva_names, shapes, sizes


@pytest.mark.parametrize("name", eva_names.NAMES)
def test_published_names_are_found(name):
  model = names.find(name)
  assert model.rope and model.rope_grid == 16 and not model.key_bias
  size = sizes.vit(model)
  assert (size.mlp_dim, size.patch_size) == (int(size.width * 4 * 2 / 3), 14)
  assert model.mlp_norm == (size.width >= 768)
  assert name in names.known()


@pytest.mark.parametrize(
  ("name", "image_size", "num_classes", "count"),
  # timm 1.0.31's eva02_*_patch14_*.
  [
    ("EVA02-Ti/14", 224, None, 5_502_144),
    ("EVA02-Ti/14", 336, 1000, 5_756_584),
    ("EVA02-S/14", 224, None, 21_621_120),
    ("EVA02-S/14", 336, 1000, 22_129_000),
    ("EVA02-B/14", 224, None, 85_758_720),
    ("EVA02-B/14", 448, 1000, 87_117_544),
    ("EVA02-L/14", 224, None, 303_268_800),
    ("EVA02-L/14", 448, 1000, 305_080_232),
  ],
)
def test_networks_have_as_many_parameters_as_timms(
  name, image_size, num_classes, count
):
  model = names.find(name).model_copy(update={"image_size": image_size})
  assert shapes.num_params(model, num_classes) == count


@pytest.mark.parametrize("name", ["EVA02-g/14", "EVA-S/14", "EVA02-S"])
def test_other_names_are_not_known(name):
  with pytest.raises(UserError, match=name):
    names.find(name)
