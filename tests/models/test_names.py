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


def test_patterns_in_lower_case_find_upper_case_and_need_no_slash():
  assert {"ViT-B/16", "DeiT-B/16"} <= set(names.list_models("*b16*"))
  assert {"ViT-g/14", "ViT-G/14"} <= set(names.list_models("vit-g/14"))


# Other libraries' names of networks that are here; their numbers of parameters
# were found to equal those of timm 1.0.31 for all 113 names that are known.
ALIASES = {
  "vit_base_patch16_384.augreg_in21k": ("ViT-B/16", {"image_size": 384}),
  "google/vit-huge-patch14-224-in21k": ("ViT-H/14", {"image_size": 224}),
  "vit_b_16": ("ViT-B/16", {}),
  "vit_tiny_r_s16_p8_224": ("R+Ti/16", {"image_size": 224}),
  "vit_large_r50_s32_384": ("R50+L/32", {"image_size": 384}),
  "facebook/deit-base-distilled-patch16-224": (
    "DeiT-B/16-distilled",
    {"image_size": 224},
  ),
  "deit3_huge_patch14_224": ("DeiT3-H/14", {"image_size": 224}),
  "facebook/dino-vits16": ("DINO-S/16", {}),
  "facebook/dinov2-giant": ("DINOv2-g/14", {}),
  "vit_small_patch14_reg4_dinov2.lvd142m": ("DINOv2-S/14-registers", {}),
  "dinov2_vitl14_reg": ("DINOv2-L/14-registers", {}),
  "dinov3_vits16plus": ("DINOv3-S+/16", {}),
  "facebook/dinov3-vitl16-pretrain-sat493m": ("DINOv3-L/16", {}),
  "vit_huge_plus_patch16_dinov3_qkvb.lvd1689m": ("DINOv3-H+/16", {}),
  "facebook/dinov3-vit7b16-pretrain-lvd1689m": ("DINOv3-7B/16", {}),
  "microsoft/beit-base-patch16-224-pt22k-ft22k": (
    "BEiT-B/16",
    {"image_size": 224},
  ),
  "beitv2_large_patch16_224": ("BEiTv2-L/16", {"image_size": 224}),
  "eva02_tiny_patch14_336": ("EVA02-Ti/14", {"image_size": 336}),
  "resnetv2_152x4_bit.goog_in21k": ("BiT-R152x4", {}),
  "convnext_xlarge.fb_in22k": ("ConvNeXt-XL", {}),
  "facebook/convnextv2-tiny-22k-384": ("ConvNeXtV2-T", {"image_size": 384}),
  "swin_base_patch4_window12_384": (
    "Swin-B",
    {"image_size": 384, "window_size": 12},
  ),
  "microsoft/swinv2-tiny-patch4-window16-256": (
    "SwinV2-T",
    {"image_size": 256, "window_size": 16},
  ),
  "OpenGVLab/pvt_v2_b2_linear": ("PVTv2-b2-li", {}),
  "openai/clip-vit-large-patch14": ("CLIP-L/14", {}),
  "google/siglip-base-patch16-256": ("SigLIP-B/16", {"image_size": 256}),
}


@pytest.mark.parametrize("alias", ALIASES)
def test_names_of_other_libraries_are_understood(alias):
  name, keys = ALIASES[alias]
  known = names.resolve(name)
  assert names.resolve(alias) == known.model_copy(update=keys)
  assert names.resolve(alias, image_size=672).image_size == 672


@pytest.mark.parametrize(
  "name",
  ["vit_base_patch16_clip_224", "swinv2_cr_tiny_224", "convnext_tiny_hnf"],
)
def test_networks_that_are_not_here_are_not_taken_for_others(name):
  with pytest.raises(UserError, match=f"No model is named '{name}'"):
    names.resolve(name)


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
