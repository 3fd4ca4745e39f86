"""Names and shapes of every parameter, counted as published."""

import math

import pytest

from vit_jax.config import named_sections
from vit_jax.models.vit import shapes as vit_shapes
from vit_jax.models.vit import sizes
from vit_jax.models.vit.shapes import Layout, Positions


def num_params(variant, image_size=224, num_classes=1000, feature=None):
  size = sizes.vit(named_sections.section("model", variant=variant))
  layout = Layout(
    size=size,
    positions=Positions("learned_1d", size.grid(image_size), 1),
    num_classes=num_classes,
    representation_size=feature,
    has_cls=True,
    cls_position=True,
    has_map_head=False,
    norm_after_pool=False,
    qkv_bias=True,
  )
  return sum(math.prod(shape) for shape in vit_shapes.shapes(layout).values())


@pytest.mark.parametrize(
  ("keys", "count"),
  [
    ({"variant": "Ti/16"}, 5_717_416),
    ({"variant": "B/16"}, 86_567_656),
    ({"variant": "B/16", "image_size": 384}, 86_859_496),
    (
      {"variant": "B/16", "num_classes": 21_843, "feature": 768},
      103_186_515,
    ),
    ({"variant": "L/32", "num_classes": None}, 305_510_400),
    ({"variant": "H/14"}, 632_045_800),
    ({"variant": "R50+B/16"}, 98_659_112),
  ],
)
def test_parameters_are_as_many_as_published(keys, count):
  assert num_params(**keys) == count
