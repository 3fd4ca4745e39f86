"""Bad values of a Swin and their sentences."""

import pytest

from vit_jax.config import named_sections, resolve
from vit_jax.config.defaults import default_config
from vit_jax.errors import UserError
from vit_jax.models import build


def check(**keys):
  config = default_config()
  config.total_steps = 1
  config.model.update({"name": "swin", "variant": "T", **keys})
  build.check(resolve.resolve(config).model)


@pytest.mark.parametrize(
  "keys, words",
  [
    (dict(variant="B/16"), ["'B/16'", "T, S, B, L"]),
    (dict(width=100), ["width = 100", "3 heads", "multiple of 3"]),
    (dict(depths=(2, 2)), ["depths = (2, 2)", "num_heads = (3, 6, 12, 24)"]),
    (dict(image_size=31), ["image_size = 31", "32 pixels", "patch_size"]),
    (
      dict(pretrained_window_sizes=(12, 12, 12, 6)),
      ["pretrained_window_sizes", "config.model.version=2"],
    ),
    (
      dict(version=2, pretrained_window_sizes=(12, 6)),
      ["pretrained_window_sizes = (12, 6)", "4 stages"],
    ),
    (dict(dropout_rate=0.1), ["dropout_rate = 0.1", "'vit'"]),
    (dict(scan_layers=True), ["scan_layers = True"]),
    (dict(pool="map"), ["pool = 'map'"]),
    (
      dict(attention="pallas", image_size=1024, window_size=32),
      ["'pallas'", "window_size = 32", "1024 places", "attention='xla'"],
    ),
  ],
)
def test_bad_value_is_named_with_what_would_do(keys, words):
  with pytest.raises(UserError) as error:
    check(**keys)
  for word in words:
    assert word in str(error.value)


@pytest.mark.parametrize(
  "keys",
  [
    dict(image_size=225),
    dict(image_size=384, window_size=12),
    dict(variant="L", image_size=384, window_size=12, attention="pallas"),
    dict(depths=(1, 2), num_heads=(2, 4), width=8, window_size=3),
    dict(version=2, window_size=16, pretrained_window_sizes=(12, 12, 12, 6)),
    dict(
      dtype="bfloat16",
      remat="named",
      normalize="imagenet",
      pool="gap",
      head_bias_init=-10.0,
      stochastic_depth_rate=0.2,
    ),
  ],
)
def test_what_a_swin_takes_passes(keys):
  check(**keys)


def test_attention_of_another_family_is_refused():
  model = named_sections.section("model", name="swin", variant="T")
  taken_over = model.updated(attention="cudnn")
  with pytest.raises(UserError, match="'cudnn'.*windows.*attention='xla'"):
    build.check(taken_over)
