"""Bad values of a PVT and their sentences."""

import pytest

from vit_jax.config import named_sections, names, resolve
from vit_jax.config.defaults import default_config
from vit_jax.errors import UserError
from vit_jax.models import build


def check(**keys):
  config = default_config()
  config.total_steps = 1
  config.model.update({"name": "pvt", "variant": "b0", **keys})
  build.check(resolve.resolve(config).model)


@pytest.mark.parametrize(
  "keys, words",
  [
    (dict(variant="B/16"), ["'B/16'", "not a PVT", "b0, b1"]),
    (dict(variant="b6"), ["'b6'", "Did you mean"]),
    (dict(depths=(1, 1)), ["depths = (1, 1)", "widths = (32, 64"]),
    (dict(num_heads=(1, 2)), ["num_heads = (1, 2)", "each stage"]),
    (
      dict(widths=(32, 64, 162, 256)),
      ["stage 3 162", "its 5 heads", "a multiple of 5"],
    ),
    (
      dict(image_size=28),
      ["image_size = 28", "stage 1", "7 x 7", "at least 29"],
    ),
    (dict(dropout_rate=0.1), ["dropout_rate = 0.1", "leave it at 0.0"]),
    (dict(pool="map"), ["pool = 'map'"]),
    (dict(scan_layers=True), ["scan_layers = True"]),
    (dict(map_norm_eps=0.0), ["config.model.map_norm_eps"]),
  ],
)
def test_bad_value_is_named_with_what_would_do(keys, words):
  with pytest.raises(UserError) as error:
    check(**keys)
  for word in words:
    assert word in str(error.value)


def test_what_a_pvt_takes_passes():
  check(
    depths=(1, 2),
    widths=(8, 10),
    num_heads=(2, 5),
    reductions=(2, 1),
    expansions=(2, 2),
    image_size=5,
    pool="gap",
    gelu="exact",
    stochastic_depth_rate=0.5,
    dtype="bfloat16",
    remat="named",
    normalize="imagenet",
  )
  check(linear_attention=True, image_size=28)


@pytest.mark.parametrize(
  "name, keys",
  [
    ("PVTv2-b0", dict(variant="b0", linear_attention=False)),
    ("PVTv2-b5", dict(variant="b5", linear_attention=False)),
    ("PVTv2-b2-li", dict(variant="b2", linear_attention=True)),
  ],
)
def test_names_stand_for_variant_and_attention(name, keys):
  model = names.find(name)
  assert model.name == "pvt"
  assert keys == {key: getattr(model, key) for key in keys}
  assert names.describe(model) == f"{name} at 224 pixels"


def test_every_key_of_the_config_reaches_the_network():
  keys = dict(
    linear_attention=True,
    depths=(1, 2),
    widths=(8, 10),
    num_heads=(2, 5),
    reductions=(2, 1),
    expansions=(2, 3),
    image_size=20,
    head_bias_init=-3.0,
    dtype="bfloat16",
    remat="dots",
    normalize="imagenet",
    stochastic_depth_rate=0.2,
    layer_norm_eps=1e-5,
    map_norm_eps=1e-12,
  )
  model = named_sections.section("model", name="pvt", variant="b0", **keys)
  network = build.create(model, num_classes=7)
  assert keys == {key: getattr(network, key) for key in keys}
  assert network.num_classes == 7
  known = set(named_sections.sections("model")["pvt"].model_fields)
  assert known <= {
    *keys,
    "name",
    "variant",
    "num_classes",
    "pos_embedding_resize",
  }
  found = build.config_of(network)
  assert build.create(found, num_classes=found.num_classes) == network
