"""Layer decay of ConvNeXts."""

import jax
import jax.numpy as jnp
import pytest

from vit_jax import registry
from vit_jax.config import named_sections, schema
from vit_jax.models import build
from vit_jax.models.convnext import shapes
from vit_jax.optim import build as optim_build


def published(path):
  """The groups of facebookresearch/ConvNeXt, for 3, 3, 27 and 3 blocks."""
  part, *rest = path.split("/")
  if part == "stem":
    return 0
  if not part.startswith("stage"):
    return 13
  stage = int(part.removeprefix("stage")) - 1
  if rest[0] == "downsample":
    return {1: 2, 2: 3, 3: 12}[stage]
  block = int(rest[0].removeprefix("block")) - 1
  return {0: 1, 1: 2, 2: 3 + block // 3, 3: 12}[stage]


def layers(**keys):
  """Path -> layer."""
  model = named_sections.section("model", name="convnext", **keys)
  family = registry.FAMILIES.get("convnext")
  return {
    path: family.layer_of(model, path) for path in shapes.shapes(model, 1000)
  }


@pytest.mark.parametrize("variant", ["S", "B", "XL"])
def test_groups_are_the_12_published_ones(variant):
  found = layers(variant=variant)
  as_published = {
    path: 13 if layer is None else layer + 1 for path, layer in found.items()
  }
  assert as_published == {path: published(path) for path in found}


def test_other_depths_have_a_layer_for_each_three_blocks():
  found = layers(variant="T", depths=(4, 1, 6), widths=(8, 8, 8))
  blocks = {
    path.removesuffix("/gamma"): layer
    for path, layer in found.items()
    if path.endswith("gamma")
  }
  assert blocks == {
    **dict.fromkeys(("stage1/block01", "stage1/block02", "stage1/block03"), 0),
    "stage1/block04": 1,
    "stage2/block01": 2,
    **dict.fromkeys(("stage3/block01", "stage3/block02", "stage3/block03"), 3),
    **dict.fromkeys(("stage3/block04", "stage3/block05", "stage3/block06"), 4),
  }
  assert found["stem/norm/bias"] == -1
  assert found["stage2/downsample/conv/kernel"] == 2
  assert found["norm/scale"] is found["head/kernel"] is None


def test_an_update_is_scaled_by_the_decay_of_its_layer():
  """SGD without momentum moves parameters by rate times factor."""
  keys = dict(variant="T", depths=(1, 4), widths=(4, 4), image_size=8)
  model = named_sections.section("model", name="convnext", **keys)
  network = build.create(model, num_classes=3)
  params = network.init(jax.random.key(0), jnp.zeros((1, 8, 8, 3)))["params"]
  config = schema.Config(
    model=model,
    optimizer=schema.Optimizer(
      name="sgd", momentum=0.0, layer_decay=0.5, grad_clip_norm=None
    ),
    schedule=schema.Schedule(base_lr=1.0, decay="constant"),
  )
  tx, _ = optim_build.build(
    config, params=params, total_steps=10, batch_size=1, num_examples=10
  )
  ones = jax.tree.map(jnp.ones_like, params)
  updates, _ = tx.update(ones, tx.init(params), params)
  assert float(-updates["head"]["bias"][0]) == 1
  assert float(-updates["stage2"]["block04"]["gamma"][0]) == 0.5
  assert float(-updates["stage2"]["block03"]["gamma"][0]) == 0.25
  assert float(-updates["stage2"]["downsample"]["norm"]["bias"][0]) == 0.25
  assert float(-updates["stage1"]["block01"]["gamma"][0]) == 0.125
  assert float(-updates["stem"]["norm"]["bias"][0]) == 0.0625
