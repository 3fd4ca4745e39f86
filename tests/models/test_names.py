"""Names as `vit_jax.list_models` and `create_model` take them."""

import pytest

from vit_jax.errors import UserError
from vit_jax.models import build, names


def test_patterns_choose_names():
  found = names.list_models("*B*16*")
  assert {"ViT-B/16", "R50+B/16"} <= set(found)
  assert all("B" in name and "16" in name for name in found)
  assert names.list_models("ViT-G/*") == ["ViT-G/14"]
  assert names.list_models("nothing") == []
  assert len(names.list_models()) > 25


def test_a_name_becomes_the_section_of_the_config():
  model = names.resolve("ViT-B/16", num_classes=10, image_size=384)
  assert (model.variant, model.num_classes) == ("B/16", 10)
  assert model.image_size == 384


@pytest.mark.parametrize("name", names.list_models())
def test_every_name_passes_its_check(name):
  build.check(names.resolve(name))


def test_an_image_size_that_the_patch_does_not_divide_is_refused():
  with pytest.raises(UserError, match="image_size = 225.*224 or 240"):
    names.resolve("ViT-B/16", image_size=225)
