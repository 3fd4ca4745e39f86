"""Names and shapes of every parameter, counted as published."""

import pytest

from vit_jax.config import named_sections
from vit_jax.models.vit import shapes


@pytest.mark.parametrize(
  ("keys", "count"),
  [
    ({"variant": "Ti/16"}, 5_717_416),
    ({"variant": "B/16"}, 86_567_656),
    ({"variant": "B/16", "image_size": 384}, 86_859_496),
    (
      {"variant": "B/16", "num_classes": 21_843, "representation_size": 768},
      103_186_515,
    ),
    ({"variant": "B/16", "pool": "cls_gap"}, 87_335_656),
    ({"variant": "L/32", "num_classes": None}, 305_510_400),
    ({"variant": "H/14"}, 632_045_800),
    ({"variant": "R50+B/16"}, 98_659_112),
    (
      {  # timm 1.0.31's vit_giant_patch14_dinov2.
        **{"variant": "g/14", "width": 1536, "num_heads": 24, "mlp_dim": 4096},
        **{"mlp": "swiglu", "layer_scale": 1e-5, "image_size": 518},
        "num_classes": None,
      },
      1_136_479_232,
    ),
  ],
)
def test_parameters_are_as_many_as_published(keys, count):
  keys = {"num_classes": 1000, **keys}
  model = named_sections.section("model", **keys)
  assert shapes.num_params(model, keys["num_classes"]) == count
