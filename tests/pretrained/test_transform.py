"""A checkpoint's preprocessing, for images of one's own."""

import numpy as np
import pytest
from PIL import Image

import vit_jax
from tests.weights import published_npz
from vit_jax.data import image_files, spec
from vit_jax.errors import UserError
from vit_jax.pretrained import transform

PIXELS = np.random.default_rng(0).integers(0, 256, (30, 20, 3), np.uint8)


@pytest.fixture
def file(tmp_path):
  """A ViT for images of 8 pixels."""
  _, params = published_npz.vit()
  return str(published_npz.saved(tmp_path / "x.npz", params))


@pytest.fixture
def photo(tmp_path):
  """A PNG, whose pixels do not depend on the decoder."""
  path = tmp_path / "photo.png"
  Image.fromarray(PIXELS).save(path)
  return path


def test_a_file_is_prepared_as_in_evaluations(file, photo):
  transform = vit_jax.load_transform(file)
  parsed = spec.check(transform.preprocess, 8, where="here", train=False)
  ((expected,),) = image_files.read([str(photo)], parsed, batch_size=1)
  assert transform.image_size == 8 and transform.class_names is None
  np.testing.assert_array_equal(transform(photo), expected.pixels)


def test_files_pillow_images_and_pixels_give_the_same(file, photo):
  transform = vit_jax.load_transform(file)
  with Image.open(photo) as image:
    pillow, pixels = transform(image), transform(np.asarray(image))
    grey = transform(np.asarray(image)[..., :1])
  np.testing.assert_array_equal(pillow, transform(photo))
  np.testing.assert_array_equal(pixels, pillow)
  np.testing.assert_array_equal(grey, np.repeat(pillow[..., :1], 3, axis=-1))


def test_a_photograph_is_turned_upright(file, tmp_path):
  exif = Image.Exif()
  exif[0x0112] = 6
  path = tmp_path / "turned.png"
  Image.fromarray(PIXELS).save(path, exif=exif)
  transform = vit_jax.load_transform(file)
  with Image.open(path) as image:
    np.testing.assert_array_equal(transform(image), transform(path))
  upright = np.rot90(PIXELS, -1)
  np.testing.assert_array_equal(transform(path), transform(upright))


@pytest.mark.parametrize("form", ["png", "tiff"])
def test_of_sixteen_bits_the_upper_eight_are_seen(tmp_path, form):
  ramp = np.linspace(0, 2**16 - 1, 64).reshape(8, 8).astype(np.uint16)
  path = tmp_path / f"ramp.{form}"
  Image.fromarray(ramp).save(path)
  whole = transform.Transform("decode|resize", 8, None)
  with Image.open(path) as image:
    assert image.mode.startswith("I;16")
    pixels = whole(image)
  expected = np.repeat((ramp >> 8)[..., None], 3, axis=-1)
  np.testing.assert_array_equal(pixels, expected)
  np.testing.assert_array_equal(whole(path), expected)


@pytest.mark.parametrize("kind", [np.float32, np.int32])
def test_pixels_of_thirty_two_bits_are_a_sentence(tmp_path, kind):
  path = tmp_path / "deep.tiff"
  Image.fromarray(np.ones((8, 8), kind)).save(path)
  whole = transform.Transform("decode|resize", 8, None)
  with pytest.raises(UserError, match="deep.tiff has 32 bits a pixel"):
    whole(path)
  with (
    Image.open(path) as image,
    pytest.raises(UserError, match="image has 32 bits a pixel; convert it to"),
  ):
    whole(image)


def test_another_size_can_be_asked_for(file, photo):
  transform = vit_jax.load_transform(file, image_size=16)
  assert transform(photo).shape == (16, 16, 3)


def test_what_is_no_image_is_a_sentence(file, tmp_path):
  transform = vit_jax.load_transform(file)
  (tmp_path / "a.jpg").write_text("no image")
  with pytest.raises(UserError, match="a.jpg is damaged"):
    transform(tmp_path / "a.jpg")
  with pytest.raises(UserError, match=r"Pixels are float32 \[4, 4, 3\]"):
    transform(np.zeros((4, 4, 3), np.float32))
  with pytest.raises(UserError, match=r"Pixels are uint8 \[4, 4\]"):
    transform(np.zeros((4, 4), np.uint8))


def test_pixels_too_few_for_the_ops_are_a_sentence():
  crop = transform.Transform("decode|central_crop", 24, None)
  assert crop(np.zeros((24, 30, 3), np.uint8)).shape == (24, 24, 3)
  with pytest.raises(UserError, match='30 x 20 pixels does not suit "decode'):
    crop(np.zeros((20, 30, 3), np.uint8))
