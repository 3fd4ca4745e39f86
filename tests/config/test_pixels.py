"""Mean and deviation of pixels, by name and by number."""

import pytest

from vit_jax.config import named_sections, pixels, resolve
from vit_jax.config.defaults import default_config
from vit_jax.errors import UserError


def test_names_stand_for_their_numbers():
  assert pixels.parse("minus_one_to_one") == ((0.5,) * 3, (0.5,) * 3)
  mean, deviation = pixels.parse("imagenet")
  assert mean == (0.485, 0.456, 0.406)
  assert deviation == (0.229, 0.224, 0.225)


def test_numbers_are_read():
  assert pixels.parse("0,0.25,1/1,0.5,1e-2") == (
    (0.0, 0.25, 1.0),
    (1.0, 0.5, 0.01),
  )


@pytest.mark.parametrize(
  "statistics",
  [*pixels.NAMED.values(), ((0.1, 0.2, 1 / 3), (0.48, 1e-7, 1.0))],
)
def test_describe_is_read_back_to_the_last_digit(statistics):
  assert pixels.parse(pixels.describe(*statistics)) == statistics


def test_known_statistics_get_their_name():
  assert pixels.describe([0.5, 0.5, 0.5], [0.5, 0.5, 0.5]) == "minus_one_to_one"


@pytest.mark.parametrize(
  "text",
  ["", "image_net", "0.5", "0.5,0.5,0.5", "0,0,0/1,1", "0,0,0/1,1,0"]
  + ["127,127,127/1,1,1", "0,0,0/1,1,1/1,1,1", "nan,0,0/1,1,1", "0,0,x/1,1,1"],
)
def test_what_cannot_be_read_says_what_could(text):
  with pytest.raises(ValueError, match="minus_one_to_one.*imagenet.*0.5,0.5"):
    pixels.parse(text)


def test_the_config_names_the_key():
  config = default_config()
  config.update(total_steps=1)
  config.model.normalize = "image_net"
  with pytest.raises(UserError, match="config.model.normalize: 'image_net'"):
    resolve.resolve(config)
  config.model.normalize = "0,0,0/1,1,1"
  assert resolve.resolve(config).model == named_sections.section(
    "model", normalize="0,0,0/1,1,1"
  )
