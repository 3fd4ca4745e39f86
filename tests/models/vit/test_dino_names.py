"""Names of DINOs stand for the networks of facebookresearch/dino to dinov3."""

import pytest

from vit_jax.config import names
from vit_jax.errors import UserError
from vit_jax.models.vit import dino_names, shapes, sizes

THIRD = [name for name in dino_names.NAMES if "v3" in name]


@pytest.mark.parametrize("name", [*dino_names.NAMES[: -len(THIRD)]])
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
    ("DINOv3-S/16", 224, 21_596_160),
    ("DINOv3-S+/16", 224, 28_692_480),
    ("DINOv3-B/16", 224, 85_659_648),
    ("DINOv3-L/16", 512, 303_128_576),
    ("DINOv3-H+/16", 224, 840_591_360),
    ("DINOv3-7B/16", 224, 6_716_030_976),
  ],
)
def test_networks_have_as_many_parameters_as_published(name, image_size, count):
  model = names.find(name).model_copy(update={"image_size": image_size})
  assert shapes.num_params(model, None) == count


@pytest.mark.parametrize("name", THIRD)
def test_dinov3s_have_rotary_positions_alone(name):
  model = names.find(name)
  assert (model.pos_embedding, model.rope, model.registers) == ("none", True, 4)
  assert (model.rope_base, model.rope_coordinates) == (100, "unit")
  assert model.layer_norm_eps == 1e-5 and model.layer_scale
  assert (model.gelu, model.normalize) == ("exact", "imagenet")
  assert (model.mlp == "swiglu") == ("+" in name or "7B" in name)
  size = sizes.vit(model)
  assert size.width // size.num_heads == (128 if "7B" in name else 64)
  assert name in names.known()


def test_hidden_units_of_the_giant_are_two_thirds_in_eights():
  size = sizes.vit(names.find("DINOv2-g/14"))
  assert (size.width, size.depth, size.num_heads) == (1536, 40, 24)
  hidden = (int(4 * size.width * 2 / 3) + 7) // 8 * 8
  assert size.mlp_dim == hidden


@pytest.mark.parametrize("name", ["DINO-S/16-registers", "DINOv3-g/14"])
def test_other_names_are_not_known(name):
  with pytest.raises(UserError, match=name):
    names.find(name)
