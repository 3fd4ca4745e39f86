"""Shrunk experiments keep the kind of their network."""

import pytest

from vit_jax.config import resolve, sizes, smoke
from vit_jax.config.defaults import default_config
from vit_jax.models import build


def shrunk(**keys):
  config = default_config()
  config.model.update(**keys)
  config.update(total_steps=100)
  return resolve.resolve(smoke.shrink(config))


@pytest.mark.parametrize(
  "variant, expected, image_size",
  [
    ("H/14", sizes.Size(32, 2, 2, 64, 14), 28),
    ("R50+L/32", sizes.Size(32, 2, 2, 64, 32, (1, 1, 1, 1), 32), 64),
    ("R+Ti/16", sizes.Size(32, 2, 2, 64, 32, (), 32), 64),
  ],
)
def test_a_transformer_keeps_its_patches_and_stages(
  variant, expected, image_size
):
  model = shrunk(variant=variant).model
  build.check(model)
  assert sizes.vit(model) == expected
  assert model.image_size == image_size


def test_a_resnet_keeps_its_stages():
  model = shrunk(name="resnet", variant="R152x4").model
  build.check(model)
  assert sizes.resnet(model) == sizes.ResNetSize((1, 1, 1, 1), 32)


def test_the_data_are_of_the_networks_size():
  config = shrunk(variant="R50+B/16")
  assert f"size={config.model.image_size}," in config.train.dataset
