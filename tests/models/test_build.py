"""Networks from `config.model`."""

import pytest

from vit_jax.config import named_sections
from vit_jax.errors import UserError
from vit_jax.models import build


def test_every_key_of_the_config_reaches_the_network():
  keys = dict(
    variant="S/8",
    depth=3,
    image_size=19,
    drop_remainder=True,
    pool="gap",
    representation_size="width",
    pos_embedding="learned_1d",
    pos_embedding_at="every_layer",
    pos_embedding_stddev="width",
    pos_embedding_init="sincos2d",
    weight_init="deit",
    cls_position=False,
    dropout_rate=0.1,
    stochastic_depth_rate=0.2,
    stochastic_depth="constant",
    stochastic_depth_group=8,
    rope=True,
    rope_grid=8,
    rope_base=100.0,
    rope_coordinates="patches",
    layer_scale=1e-4,
    distillation="none",
    head_bias_init=-3.0,
    dtype="bfloat16",
    head_dtype="bfloat16",
    softmax_dtype="bfloat16",
    attention="cudnn",
    scan_layers=True,
    patch_bias=False,
    pre_norm=True,
    mlp="swiglu",
    mlp_norm=True,
    remat="dots",
    normalize="imagenet",
    gelu="exact",
    layer_norm_eps=1e-12,
    qkv_bias=False,
    key_bias=False,
    cls_token=False,
    registers=3,
    norm_after_pool=True,
    stem_blocks=(1, 2),
    stem_width=32,
    standardization="torch",
  )
  network = build.create(named_sections.section("model", **keys), num_classes=7)
  expected = dict(keys, representation_size=384, num_classes=7, patch_size=8)
  del expected["variant"]
  found = {key: getattr(network, key) for key in expected}
  assert found == expected
  assert set(named_sections.sections("model")["vit"].model_fields) <= {
    "name",
    "variant",
    "width",
    "num_heads",
    "mlp_dim",
    "pos_embedding_resize",
    *expected,
  }


def test_defaults_of_network_and_config_agree():
  network = build.create(named_sections.section("model"), num_classes=7)
  assert network == type(network)(768, 12, 12, 3072, 16, num_classes=7)


def test_every_key_of_the_config_reaches_a_resnet():
  keys = dict(
    image_size=20,
    head_bias_init=-3.0,
    dtype="bfloat16",
    remat="dots",
    normalize="imagenet",
    standardization="torch",
  )
  model = named_sections.section(
    "model", name="resnet", variant="R26x3", **keys
  )
  network = build.create(model, num_classes=7)
  expected = dict(keys, blocks=(2, 2, 2, 2), width=192, num_classes=7)
  assert expected == {key: getattr(network, key) for key in expected}


@pytest.mark.parametrize(
  "keys",
  [
    dict(),
    dict(variant="R50+B/16", representation_size="width"),
    dict(variant="Ti/4", width=16, depth=3, num_heads=2, mlp_dim=24),
    dict(variant="S/8", stem_blocks=(1, 2), stem_width=32, remat="full"),
    dict(variant="So400m/14", pool="map", image_size=378, scan_layers=True),
    dict(pool="gap", cls_token=True, norm_after_pool=True, gelu="exact"),
    dict(variant="H/14", image_size=384, drop_remainder=True, qkv_bias=False),
    dict(name="resnet", variant="R152x4", dtype="bfloat16"),
    dict(name="resnet", variant="R50x1", blocks=(1, 2), width=96),
  ],
  ids=str,
)
def test_a_networks_config_makes_the_same_network(keys):
  network = build.create(named_sections.section("model", **keys), num_classes=7)
  model = build.config_of(network)
  assert model.num_classes == 7
  assert build.create(model, num_classes=model.num_classes) == network


def test_unknown_architecture_is_refused():
  with pytest.raises(UserError, match="config.model.name = 'inception'"):
    build.create(
      named_sections.section("model", name="inception"), num_classes=7
    )
