"""Names of DINOs stand for the networks of facebookresearch/dino and dinov2."""

import pytest

from vit_jax.config import names
from vit_jax.errors import UserError
from vit_jax.models.vit import dino_names, shapes, sizes


@pytest.mark.parametrize("name", dino_names.NAMES)
def test_published_names_are_found(name):
  model = names.find(name)
  assert (model.gelu, model.normalize) == ("exact", "imagenet")
  assert (model.layer_scale is not None) == ("v2" in name)
  assert model.registers == (4 if "registers" in name else 0)
  method = "bicubic_antialias" if "registers" in name else "bicubic_offset"
  assert model.pos_embedding_resize == method
  assert name in names.known()


@pytest.mark.parametrize(
  ("name", "image_size", "count"),
  # timm 1.0.31's, which have no position of the class token with registers.
  [
    ("DINO-S/16", 224, 21_665_664),
    ("DINO-S/8", 224, 21_670_272),
    ("DINO-B/16", 224, 85_798_656),
    ("DINO-B/8", 224, 85_807_872),
    ("DINOv2-S/14", 518, 22_056_192),
    ("DINOv2-B/14", 518, 86_579_712),
    ("DINOv2-L/14", 518, 304_367_616),
    ("DINOv2-g/14", 518, 1_136_479_232),
    ("DINOv2-S/14-registers", 518, 22_057_344 + 384),
    ("DINOv2-B/14-registers", 518, 86_582_016 + 768),
    ("DINOv2-L/14-registers", 518, 304_370_688 + 1024),
    ("DINOv2-g/14-registers", 518, 1_136_483_840 + 1536),
  ],
)
def test_networks_have_as_many_parameters_as_published(name, image_size, count):
  model = names.find(name).model_copy(update={"image_size": image_size})
  assert shapes.num_params(model, None) == count


def test_hidden_units_of_the_giant_are_two_thirds_in_eights():
  size = sizes.vit(names.find("DINOv2-g/14"))
  assert (size.width, size.depth, size.num_heads) == (1536, 40, 24)
  hidden = (int(4 * size.width * 2 / 3) + 7) // 8 * 8
  assert size.mlp_dim == hidden


@pytest.mark.parametrize("name", ["DINO-S/16-registers", "DINOv3-S/16"])
def test_other_names_are_not_known(name):
  with pytest.raises(UserError, match=name):
    names.find(name)
