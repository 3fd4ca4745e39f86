"""Parameters and multiply-adds of ConvNeXts are the published ones."""

import jax
import pytest

from tests.models.networks import tiny_convnext
from vit_jax import trees
from vit_jax.config import names
from vit_jax.models import build
from vit_jax.models.convnext import shapes
from vit_jax.paper import cost

# Millions of parameters and billions of multiply-adds at 224 pixels, as
# arXiv 2201.03545 has them.
PUBLISHED = {
  "ConvNeXt-T": (28.6, 4.5),
  "ConvNeXt-S": (50.2, 8.7),
  "ConvNeXt-B": (88.6, 15.4),
  "ConvNeXt-L": (197.8, 34.4),
  "ConvNeXt-XL": (350.2, 60.9),
}
# Parameters of timm 1.0.31's networks of the same names.
TIMM = {
  "ConvNeXt-T": 28_589_128,
  "ConvNeXt-XL": 350_196_968,
  "ConvNeXtV2-atto": 3_708_400,
  "ConvNeXtV2-femto": 5_233_240,
  "ConvNeXtV2-pico": 9_066_280,
  "ConvNeXtV2-nano": 15_623_800,
  "ConvNeXtV2-T": 28_635_496,
  "ConvNeXtV2-B": 88_717_800,
  "ConvNeXtV2-L": 197_956_840,
  "ConvNeXtV2-H": 660_289_640,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_counts_are_the_published_ones(name):
  millions, billions = PUBLISHED[name]
  assert round(cost.num_params(name) / 1e6, 1) == millions
  macs = cost.forward_flops(names.find(name), num_classes=1000) / 2
  assert round(macs / 1e9, 1) == billions


@pytest.mark.parametrize("name", TIMM)
def test_parameters_are_as_many_as_timms(name):
  assert cost.num_params(name) == TIMM[name]


@pytest.mark.parametrize(
  "keys", [{}, {"version": 2, "stem_stride": 2}], ids=str
)
def test_networks_have_the_shapes_that_are_told(keys):
  network = tiny_convnext(**keys)
  model = build.config_of(network)
  images = jax.ShapeDtypeStruct((1, 16, 16, 3), "float32")
  params = jax.eval_shape(network.init, jax.random.key(0), images)["params"]
  found = {path: leaf.shape for path, leaf in trees.named_leaves(params)}
  assert found == shapes.shapes(model, model.num_classes)


def test_the_cost_is_counted_by_hand():
  """9 x 9 places of 2 x 2 pixels, then 4 x 4 of two channels more."""
  model = build.config_of(tiny_convnext(image_size=19, stem_stride=2))
  stem = 9 * 9 * (2 * 2 * 3) * 6
  first = 9 * 9 * (49 * 6 + 2 * 6 * 24)
  downsample = 4 * 4 * (2 * 2 * 6) * 8
  others = 2 * 4 * 4 * (49 * 8 + 2 * 8 * 32)
  macs = stem + first + downsample + others + 8 * 5
  assert cost.forward_flops(model, num_classes=5) == 2 * macs
