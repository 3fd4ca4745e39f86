"""Bad values of a Vision Transformer and their sentences."""

import subprocess
import sys

import pytest

from vit_jax.config import schema, sizes
from vit_jax.errors import UserError
from vit_jax.models import build


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
  ],
)
def test_variant_has_its_published_size(variant, expected):
  size = sizes.vit(schema.Model(variant=variant))
  assert expected == (
    size.width,
    size.depth,
    size.num_heads,
    size.mlp_dim,
    size.patch_size,
  )


def test_numbers_set_by_hand_win_over_the_variant():
  model = schema.Model(variant="B/16", depth=8, width=1024, mlp_dim=2048)
  size = sizes.vit(model)
  assert (size.width, size.depth, size.mlp_dim) == (1024, 8, 2048)
  assert size.num_heads == 12


def test_representation_size_width_is_the_models_width():
  model = schema.Model(variant="B/16", width=64, representation_size="width")
  assert sizes.representation_size(model) == 64


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
    (dict(name="vti"), ["config.model.name", "'vit'"]),
  ],
)
def test_bad_value_is_named_with_what_would_do(keys, words):
  with pytest.raises(UserError) as error:
    build.check(schema.Model(**keys))
  for word in words:
    assert word in str(error.value)


@pytest.mark.parametrize("variant", sizes.VARIANTS)
def test_every_variant_passes_its_own_check(variant):
  build.check(schema.Model(variant=f"{variant}/16"))


def test_h14_at_384_px_passes_when_the_remainder_may_be_dropped():
  build.check(schema.Model(variant="H/14", image_size=384, drop_remainder=True))


def test_checks_import_no_jax():
  code = "import sys, vit_jax.models.build; assert 'jax' not in sys.modules"
  subprocess.run([sys.executable, "-c", code], check=True)
