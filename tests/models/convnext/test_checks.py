"""Bad values of a ConvNeXt and their sentences."""

import pytest

from vit_jax.config import named_sections, names, resolve
from vit_jax.config.defaults import default_config
from vit_jax.errors import UserError
from vit_jax.models import build


def check(**keys):
  config = default_config()
  config.total_steps = 1
  config.model.update({"name": "convnext", "variant": "T", **keys})
  build.check(resolve.resolve(config).model)


@pytest.mark.parametrize(
  "keys, words",
  [
    (dict(variant="B/16"), ["'B/16'", "Did you mean 'B'?", "femto"]),
    (dict(depths=(1, 1)), ["depths = (1, 1)", "widths = (96, 192"]),
    (
      dict(image_size=31),
      ["image_size = 31", "32 pixels apart", "at least 32"],
    ),
    (dict(image_size=63, stem_stride=8), ["63", "at least 64"]),
    (dict(version=3), ["config.model.version", "3"]),
    (dict(dropout_rate=0.1), ["dropout_rate = 0.1", "leave it at 0.0"]),
    (dict(pool="cls", cls_token=True), ["cls_token = True"]),
    (dict(pool="map"), ["pool = 'map'"]),
    (dict(blocks=(1,)), ["blocks = (1,)"]),
    (dict(scan_layers=True), ["scan_layers = True"]),
  ],
)
def test_bad_value_is_named_with_what_would_do(keys, words):
  with pytest.raises(UserError) as error:
    check(**keys)
  for word in words:
    assert word in str(error.value)


def test_what_a_convnext_takes_passes():
  check(
    version=2,
    depths=(1, 2),
    widths=(8, 10),
    stem_stride=2,
    image_size=5,
    pool="gap",
    norm_after_pool=True,
    gelu="exact",
    stochastic_depth_rate=0.5,
    head_bias_init=-10.0,
    dtype="bfloat16",
    remat="named",
    normalize="imagenet",
  )


@pytest.mark.parametrize(
  "name, keys",
  [
    ("ConvNeXt-XL", dict(variant="XL", version=1)),
    ("ConvNeXtV2-atto", dict(variant="atto", version=2)),
    ("ConvNeXt-nano", dict(variant="nano", version=1)),
  ],
)
def test_names_stand_for_version_and_variant(name, keys):
  model = names.find(name)
  assert model.name == "convnext"
  assert keys == {key: getattr(model, key) for key in keys}
  assert names.describe(model) == f"{name} at 224 pixels"


def test_an_unknown_name_gets_the_nearest():
  with pytest.raises(UserError, match="Did you mean 'ConvNeXt"):
    names.find("ConvNeXt-huge")


def test_every_key_of_the_config_reaches_the_network():
  keys = dict(
    version=2,
    depths=(1, 2),
    widths=(8, 10),
    stem_stride=2,
    image_size=20,
    head_bias_init=-3.0,
    dtype="bfloat16",
    remat="dots",
    depthwise="pallas",
    normalize="imagenet",
    stochastic_depth_rate=0.2,
    layer_norm_eps=1e-5,
    head_norm_eps=1e-12,
  )
  model = named_sections.section("model", name="convnext", variant="T", **keys)
  network = build.create(model, num_classes=7)
  assert keys == {key: getattr(network, key) for key in keys}
  assert network.num_classes == 7
  known = set(named_sections.sections("model")["convnext"].model_fields)
  assert known <= {
    *keys,
    "name",
    "variant",
    "num_classes",
    "pos_embedding_resize",
  }
  found = build.config_of(network)
  assert build.create(found, num_classes=found.num_classes) == network
