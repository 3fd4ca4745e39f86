"""Sizes against published ones, and back to the keys that ask for them."""

import pytest

from vit_jax import registry
from vit_jax.config import named_sections
from vit_jax.errors import UserError
from vit_jax.models.resnet import sizes as resnet_sizes
from vit_jax.models.vit import sizes


def size_of(**keys):
  model = named_sections.section("model", **keys)
  return registry.FAMILIES.get(model.name).size(model)


@pytest.mark.parametrize(
  "variant, expected",
  [
    ("Ti/16", (192, 12, 3, 768, 16)),
    ("B/32", (768, 12, 12, 3072, 32)),
    ("L/16", (1024, 24, 16, 4096, 16)),
    ("H/14", (1280, 32, 16, 5120, 14)),
    ("So400m/14", (1152, 27, 16, 4304, 14)),
    ("g/14", (1408, 40, 16, 6144, 14)),
    ("G/14", (1664, 48, 16, 8192, 14)),
    ("mu/7", (32, 1, 2, 128, 7)),
    ("R50+B/16", (768, 12, 12, 3072, 16, (3, 4, 9))),
    ("R50+L/32", (1024, 24, 16, 4096, 32, (3, 4, 6, 3))),
    ("R26+S/32", (384, 12, 6, 1536, 32, (2, 2, 2, 2))),
    ("R+Ti/16", (192, 12, 3, 768, 32, ())),
  ],
)
def test_variant_has_its_published_size(variant, expected):
  assert size_of(variant=variant) == sizes.Size(*expected)


@pytest.mark.parametrize(
  "variant, expected",
  [
    ("R50x1", ((3, 4, 6, 3), 64)),
    ("R101x3", ((3, 4, 23, 3), 192)),
    ("R152x2", ((3, 8, 36, 3), 128)),
    ("R200x3", ((3, 24, 36, 3), 192)),
    ("R50x12", ((3, 4, 6, 3), 768)),
  ],
)
def test_resnet_has_its_published_size(variant, expected):
  found = size_of(name="resnet", variant=variant)
  assert found == resnet_sizes.ResNetSize(*expected)


def test_numbers_set_by_hand_win_over_the_variant():
  size = size_of(variant="B/16", depth=8, width=1024, mlp_dim=2048)
  assert (size.width, size.depth, size.mlp_dim) == (1024, 8, 2048)
  assert size.num_heads == 12
  size = size_of(variant="R50+B/16", stem_blocks=(1, 2), stem_width=32)
  assert (size.stem_blocks, size.stem_width) == ((1, 2), 32)
  assert size_of(variant="B/16", stem_blocks=()).stem_blocks == ()
  size = size_of(name="resnet", variant="R50x2", width=32, blocks=(1, 1))
  assert size == resnet_sizes.ResNetSize((1, 1), 32)


def test_representation_size_width_is_the_models_width():
  model = named_sections.section(
    "model", variant="B/16", width=64, representation_size="width"
  )
  assert sizes.representation_size(model) == 64


@pytest.mark.parametrize(
  "blocks, stride",
  [(None, 1), ((), 4), ((3,), 4), ((1, 1), 8), ((3, 4, 9), 16)],
)
def test_every_stage_but_the_first_halves(blocks, stride):
  assert resnet_sizes.stem_stride(blocks) == stride


@pytest.mark.parametrize(
  "variant, image_size, grid",
  [
    ("B/16", 224, 14),
    ("H/14", 384, 27),
    ("R50+B/16", 384, 24),
    ("R50+B/16", 225, 15),
    ("R50+L/32", 224, 7),
    ("R+Ti/16", 224, 7),
    ("R+Ti/16", 250, 7),
  ],
)
def test_grid(variant, image_size, grid):
  assert size_of(variant=variant).grid(image_size) == grid


VIT_SIZES = [
  sizes.Size(768, 12, 12, 3072, 16),
  sizes.Size(768, 12, 12, 3072, 32, (3, 4, 6, 3)),
  sizes.Size(192, 12, 3, 768, 32, ()),
  sizes.Size(192, 12, 3, 768, 4, ()),
  sizes.Size(48, 1, 3, 96, 8, (1, 1), 32),
  sizes.Size(1000, 12, 10, 4000, 7),
]


@pytest.mark.parametrize("size", VIT_SIZES, ids=str)
def test_keys_of_a_vit_ask_for_its_size(size):
  assert (
    sizes.vit(named_sections.section("model", **sizes.vit_keys(size))) == size
  )


@pytest.mark.parametrize(
  "size",
  [
    resnet_sizes.ResNetSize((3, 4, 6, 3), 64),
    resnet_sizes.ResNetSize((3, 8, 36, 3), 256),
    resnet_sizes.ResNetSize((1, 1), 64),
    resnet_sizes.ResNetSize((3, 4, 6, 3), 32),
    resnet_sizes.ResNetSize((3, 4, 6, 3), 96),
  ],
  ids=str,
)
def test_keys_of_a_resnet_ask_for_its_size(size):
  assert (
    resnet_sizes.resnet(
      named_sections.section("model", **resnet_sizes.resnet_keys(size))
    )
    == size
  )


def test_published_sizes_get_their_names_alone():
  for variant in ("Ti/16", "H/14", "R50+B/16", "R50+L/32", "R+Ti/16"):
    keys = sizes.vit_keys(size_of(variant=variant))
    assert keys == {"variant": variant}
  for variant in ("R50x1", "R152x4", "R200x3"):
    keys = resnet_sizes.resnet_keys(size_of(name="resnet", variant=variant))
    assert keys == {"name": "resnet", "variant": variant}


@pytest.mark.parametrize(
  "keys, words",
  [
    (dict(variant="R51+B/16"), ["'R51+B/16'", "'R50+B/16'", "stem_blocks"]),
    (dict(variant="R26+B/16"), ["'R26+B/16'", "'R26+B/32'"]),
    (dict(variant="R50+b/16"), ["'R50+b/16'", "'R50+B/16'"]),
    (dict(variant="+B/16"), ["'+B/16'", "+B/16'"]),
    (dict(variant="R50+B"), ["'R50+B'", "'R50+B/16'"]),
    (dict(name="resnet"), ["'B/16'", "not a ResNet", "R50x1"]),
    (dict(name="resnet", variant="R51x1"), ["'R51x1'", "'R50x1'"]),
    (dict(name="resnet", variant="R50x0"), ["'R50x0'", "'R50x1'"]),
    (dict(name="resnet", variant="R50"), ["'R50'", "'R50x1'"]),
  ],
)
def test_unknown_variant_gets_the_nearest(keys, words):
  with pytest.raises(UserError) as error:
    size_of(**keys)
  for word in ("config.model.variant", *words):
    assert word in str(error.value)
