"""Bad values of a ResNet and their sentences."""

import pytest

from vit_jax.config import resolve
from vit_jax.config.defaults import default_config
from vit_jax.errors import UserError
from vit_jax.models import build


def check(**keys):
  config = default_config()
  config.total_steps = 1
  config.model.update({"name": "resnet", "variant": "R50x1", **keys})
  build.check(resolve.resolve(config).model)


@pytest.mark.parametrize(
  "keys, words",
  [
    (dict(variant="B/16"), ["'B/16'", "R50x1"]),
    (dict(width=100), ["width = 100", "32 groups", "use 128"]),
    (
      dict(dropout_rate=0.1),
      ["dropout_rate = 0.1", "'vit'", "leave it at 0.0"],
    ),
    (dict(depth=50), ["config.model.depth = 50", "'resnet' lacks"]),
    (dict(pool="map"), ["pool = 'map'", "'vit'"]),
    (dict(stem_blocks=(1,)), ["stem_blocks = (1,)"]),
    (dict(scan_layers=True), ["scan_layers = True"]),
    (dict(representation_size="width"), ["representation_size = 'width'"]),
  ],
)
def test_bad_value_is_named_with_what_would_do(keys, words):
  with pytest.raises(UserError) as error:
    check(**keys)
  for word in words:
    assert word in str(error.value)


def test_what_a_resnet_takes_passes():
  check(
    width=96,
    blocks=(1, 2),
    image_size=33,
    pool="gap",
    head_bias_init=-10.0,
    dtype="bfloat16",
    remat="named",
    normalize="imagenet",
    standardization="torch",
    pos_embedding_resize="bicubic",
  )
