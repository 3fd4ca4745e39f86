"""Counts of parameters against the facts and against the networks."""

import pytest

from vit_jax.config import named_sections, names
from vit_jax.paper import parameters


@pytest.mark.parametrize(
  "name, with_head, with_representation, bare",
  [
    # paper_facts, section 1.1.
    ("ViT-Ti/16", 5_717_416, 5_754_472, 5_524_416),
    ("ViT-S/16", 22_050_664, 22_198_504, 21_665_664),
    ("ViT-S/32", 22_878_952, 23_026_792, 22_493_952),
    ("ViT-B/32", 88_224_232, 88_814_824, 87_455_232),
    ("ViT-B/16", 86_567_656, 87_158_248, 85_798_656),
    ("ViT-L/32", 306_535_400, 307_585_000, 305_510_400),
    ("ViT-L/16", 304_326_632, 305_376_232, 303_301_632),
    ("ViT-H/14", 632_045_800, 633_685_480, 630_764_800),
  ],
)
def test_transformers_have_the_parameters_of_the_facts(
  name, with_head, with_representation, bare
):
  deep = names.find(name).model_copy(update={"representation_size": "width"})
  assert parameters.count(name) == with_head
  assert parameters.count(deep) == with_representation
  assert parameters.count(name, num_classes=None) == bare


@pytest.mark.parametrize(
  "name, millions",
  [
    ("BiT-R50x1", 25.55),
    ("BiT-R101x1", 44.54),
    ("BiT-R50x3", 217.32),
    ("BiT-R101x3", 387.93),
    ("BiT-R152x2", 236.34),
    ("BiT-R152x4", 936.53),
  ],
)
def test_resnets_have_the_parameters_of_the_facts(name, millions):
  assert round(parameters.count(name) / 1e6, 2) == millions


@pytest.mark.parametrize(
  "keys",
  [
    dict(variant="mu/16", pool="map", qkv_bias=False),
    dict(variant="Ti/16", depth=2, pool="gap", pos_embedding="sincos2d"),
    dict(variant="mu/16", cls_position=False),
    dict(variant="mu/16", pos_embedding="learned_2d"),
    dict(
      variant="mu/16",
      depth=2,
      pos_embedding="relative",
      pos_embedding_at="every_layer_shared",
    ),
    dict(variant="mu/16", depth=2, pos_embedding_at="every_layer"),
    dict(variant="mu/16", pool="gap", norm_after_pool=True),
    dict(variant="R50+B/16", depth=1, representation_size=9),
    dict(variant="R+Ti/16", depth=1, cls_token=True, pool="gap"),
    dict(name="resnet", variant="R50x1", blocks=(1, 2), width=32),
    dict(name="resnet", variant="R50x1", blocks=(1,), width=32),
  ],
  ids=str,
)
def test_networks_have_as_many(keys):
  jax = pytest.importorskip("jax")
  from vit_jax.models import build

  model = named_sections.section("model", **keys)
  network = build.create(model, num_classes=5)
  images = jax.ShapeDtypeStruct((1, 224, 224, 3), "float32")
  params = jax.eval_shape(network.init, jax.random.key(0), images)
  counted = sum(leaf.size for leaf in jax.tree.leaves(params))
  assert counted == parameters.count(model, num_classes=5)
