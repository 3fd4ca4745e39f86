"""Bad values of a Vision Transformer and their sentences."""

import subprocess
import sys

import pytest

from vit_jax.config import named_sections, resolve
from vit_jax.config.defaults import default_config
from vit_jax.errors import UserError
from vit_jax.models import build
from vit_jax.models.vit import sizes


@pytest.mark.parametrize(
  "keys, words",
  [
    (dict(variant="b/16"), ["config.model.variant", "'B/16'"]),
    (dict(variant="Huge/14"), ["'Huge/14'", "So400m"]),
    (dict(variant="B"), ["'B'", "'B/16'"]),
    (dict(variant="B/x"), ["'B/x'", "patch size"]),
    (dict(variant="B/0"), ["'B/0'", "patch size"]),
    (dict(variant="B/²"), ["patch size"]),
    (dict(width=100), ["width = 100", "num_heads = 12", "10 heads", "108"]),
    (dict(image_size=225), ["225", "224 or 240", "drop_remainder", " 1 "]),
    (dict(image_size=8), ["image_size = 8", "16 or more"]),
    (
      dict(pos_embedding="sincos2d", width=30, num_heads=2),
      ["'sincos2d'", "multiple of 4", "width = 30", "28 or 32"],
    ),
    (
      dict(pos_embedding="sincos2d", width=4, num_heads=2),
      ["'sincos2d'", "at least 8"],
    ),
    (
      dict(pos_embedding="learned_2d", width=33, num_heads=3),
      ["'learned_2d'", "multiple of 2"],
    ),
    (
      dict(pos_embedding="none", pos_embedding_at="every_layer"),
      ["pos_embedding_at = 'every_layer'", "'stem'"],
    ),
    (dict(attention="cudnn"), ["'cudnn'", "bfloat16"]),
    (
      dict(attention="cudnn", dtype="bfloat16", num_heads=2),
      ["'cudnn'", "384", "num_heads"],
    ),
    (
      dict(attention="cudnn", dtype="bfloat16", pos_embedding="relative"),
      ["'cudnn'", "'relative'", "'xla'"],
    ),
    (dict(stem_width=32), ["stem_width = 32", "no stem", "R50+B/16"]),
    (
      dict(variant="R50+B/16", stem_width=40),
      ["stem_width = 40", "32 groups", "32 or 64"],
    ),
    (
      dict(variant="B/16", stem_blocks=(1, 1, 1, 1)),
      ["stride of 16", "(1, 1, 1, 1)", "has 32"],
    ),
    (
      dict(variant="R+Ti/16", image_size=225),
      ["225", "224 or 256", "drop_remainder", " 4 "],
    ),
    (dict(variant="R+Ti/16", image_size=20), ["image_size = 20", "32 or"]),
    (
      dict(cls_position=False, pos_embedding="relative"),
      ["cls_position = False", "'relative'"],
    ),
    (
      dict(registers=4, pos_embedding="relative"),
      ["registers = 4", "'relative'", "'learned_1d'"],
    ),
    (
      dict(pos_embedding="relative_bias"),
      ["'relative_bias'", "'stem'", "'every_layer'"],
    ),
    (
      dict(
        pos_embedding="relative_bias",
        pos_embedding_at="every_layer",
        attention="flash",
      ),
      ["'flash'", "'relative_bias'", "'xla'"],
    ),
    (
      dict(
        pos_embedding="relative_bias",
        pos_embedding_at="every_layer",
        pool="gap",
      ),
      ["'relative_bias'", "0 tokens", "cls_token=True"],
    ),
    (
      dict(
        pos_embedding="relative_bias",
        pos_embedding_at="every_layer",
        cls_position=False,
      ),
      ["cls_position = False", "'relative_bias'"],
    ),
    (
      dict(pos_embedding_resize="geometric"),
      ["'geometric'", "'learned_1d'", "'bicubic'"],
    ),
    (dict(cls_token=False), ["pool = 'cls'", "cls_token", "'gap'"]),
    (dict(cls_token=False, pool="cls_gap"), ["pool = 'cls_gap'", "'gap'"]),
    (dict(norm_after_pool=True, pool="cls_gap"), ["'cls_gap'", "'gap'"]),
    (dict(cls_token=True, pool="map"), ["'map'", "cls_token"]),
    (dict(name="vti"), ["config.model.name", "'vit'"]),
    (dict(rope_base=100.0), ["rope_base = 100.0", "rope = False", "10000.0"]),
    (dict(rope_coordinates="unit"), ["rope_coordinates = 'unit'", "rope=True"]),
    (
      dict(rope=True, rope_coordinates="unit", rope_grid=8),
      ["rope_grid = 8", "rope_coordinates = 'unit'", "at 16"],
    ),
  ],
)
def test_bad_value_is_named_with_what_would_do(keys, words):
  with pytest.raises(UserError) as error:
    build.check(named_sections.section("model", **keys))
  for word in words:
    assert word in str(error.value)


def test_units_of_a_resnet_are_refused():
  config = default_config()
  config.model.blocks = (1,)
  with pytest.raises(UserError, match=r"blocks = \(1,\).*'resnet'.*'vit'"):
    resolve.resolve(config)


@pytest.mark.parametrize("variant", sizes.VARIANTS)
def test_every_variant_passes_its_own_check(variant):
  build.check(named_sections.section("model", variant=f"{variant}/16"))


def test_h14_at_384_px_passes_when_the_remainder_may_be_dropped():
  build.check(
    named_sections.section(
      "model", variant="H/14", image_size=384, drop_remainder=True
    )
  )


@pytest.mark.parametrize("image_size", [224, 225, 384, 500])
def test_any_image_size_suits_patches_of_one_place(image_size):
  """A stem's convolutions round up, so that nothing is dropped."""
  build.check(
    named_sections.section("model", variant="R50+B/16", image_size=image_size)
  )


def test_checks_import_no_jax():
  code = (
    "import sys, vit_jax.models.names, vit_jax.paper.cost;"
    " assert 'jax' not in sys.modules"
  )
  subprocess.run([sys.executable, "-c", code], check=True)
