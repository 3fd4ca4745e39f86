import numpy as np
import pytest
from PIL import Image

from vit_jax.data import encoded, ops_image
from vit_jax.data.tf_import import tf


def seed(row=0):
  return tf.constant([7, row], tf.int64)


def pixel_image(pixels):
  return encoded.PixelImage(tf.constant(pixels))


def random_pixels(height, width):
  rng = np.random.default_rng(0)
  return rng.integers(0, 256, (height, width, 3), np.uint8)


def bilinear(pixels, size):
  """Half-pixel-centred bilinear interpolation without antialiasing."""

  def weights(length):
    place = (np.arange(size) + 0.5) * length / size - 0.5
    place = np.clip(place, 0, length - 1)
    low = np.floor(place).astype(int)
    high = np.minimum(low + 1, length - 1)
    matrix = np.zeros((size, length))
    np.add.at(matrix, (np.arange(size), low), 1 - (place - low))
    np.add.at(matrix, (np.arange(size), high), place - low)
    return matrix

  rows, columns = weights(pixels.shape[0]), weights(pixels.shape[1])
  return np.einsum("ah,bw,hwc->abc", rows, columns, pixels.astype(float))


def test_resize_interpolates_and_rounds():
  pixels = random_pixels(20, 31)
  result = ops_image.resize(pixel_image(pixels), seed(), 13).numpy()
  assert result.dtype == np.uint8
  # Half a step of rounding, and float32.
  assert np.abs(result - bilinear(pixels, 13)).max() < 0.501


def test_bicubic_does_not_wrap_around():
  pixels = np.zeros((16, 16, 3), np.uint8)
  pixels[:, 8:] = 255
  result = ops_image.resize(pixel_image(pixels), seed(), 32, "bicubic").numpy()
  assert (result[:, :12] < 30).all() and (result[:, 20:] > 225).all()


@pytest.mark.parametrize(
  ("shape", "expected"), [((40, 60), (20, 30)), ((61, 30), (41, 20))]
)
def test_resize_small_keeps_the_proportions(shape, expected):
  image = pixel_image(random_pixels(*shape))
  result = ops_image.resize_small(image, seed(), 16, scale=1.25)
  assert result.shape == (*expected, 3)


@pytest.mark.parametrize("shape", [(40, 61), (500, 333), (5, 999), (7, 7)])
def test_sides_are_rounded_down_as_in_torchvision(shape):
  image, side = pixel_image(random_pixels(*shape)), 20
  result = ops_image.resize_small(image, seed(), side, rounding="down")
  # The formula of its functional.resize.
  expected = [int(side * length / min(shape)) for length in shape]
  assert result.shape == (*expected, 3)


@pytest.mark.parametrize("shape", [(11, 20), (13, 21), (15, 23), (8, 8)])
def test_the_middle_is_rounded_to_even_as_in_torchvision(shape):
  pixels = random_pixels(*shape)
  image = pixel_image(pixels)
  result = ops_image.central_crop(image, seed(), 8, rounding="nearest").numpy()
  # The formula of its functional.center_crop.
  top, left = (int(round((length - 8) / 2.0)) for length in shape)
  assert np.array_equal(result, pixels[top : top + 8, left : left + 8])


def test_resize_small_averages_areas():
  pixels = random_pixels(8, 12)
  result = ops_image.resize_small(pixel_image(pixels), seed(), 4).numpy()
  mean = pixels.reshape(4, 2, 6, 2, 3).mean((1, 3))
  assert np.abs(result - mean).max() < 0.501


def test_central_crop_takes_the_middle():
  pixels = random_pixels(11, 20)
  result = ops_image.central_crop(pixel_image(pixels), seed(), 8).numpy()
  assert np.array_equal(result, pixels[1:9, 6:14])


def test_random_crop_takes_every_window_about_as_often():
  pixels = np.zeros((5, 6, 3), np.uint8)
  pixels[..., 0], pixels[..., 1] = np.mgrid[:5, :6]
  image = pixel_image(pixels)
  counts = np.zeros((3, 4))
  for row in range(480):
    crop = ops_image.random_crop(image, seed(row), 3).numpy()
    top, left = crop[0, 0, :2]
    assert np.array_equal(crop, pixels[top : top + 3, left : left + 3])
    counts[top, left] += 1
  assert counts.min() > 15 and counts.max() < 70  # 40 each expected.


def test_pad_surrounds_the_image():
  pixels = random_pixels(4, 5)
  result = ops_image.pad(pixel_image(pixels), seed(), 2, value=9).numpy()
  assert result.shape == (8, 9, 3)
  assert np.array_equal(result[2:6, 2:7], pixels)
  assert (result[:2] == 9).all() and (result[:, -2:] == 9).all()


def test_scaled_pixels_stop_at_white():
  pixels = np.uint8([[[0, 1, 2]]])
  for factor, wanted in ((100, [0, 100, 200]), (255, [0, 255, 255])):
    result = ops_image.scale_pixels(pixel_image(pixels), seed(), factor)
    assert result.dtype == tf.uint8
    assert result.numpy().tolist() == [[wanted]]


class Recorder:
  """An image that records the window that is cut out."""

  def __init__(self, height, width):
    self.size = height, width

  def shape(self):
    return tf.constant([*self.size, 3])

  def pixels(self):
    raise AssertionError("the whole image was decoded")

  def crop(self, window):
    self.window = window.numpy()
    return tf.zeros([*window.numpy()[2:], 3], tf.uint8)


def test_inception_crop_keeps_area_and_proportions_in_their_ranges():
  image = Recorder(300, 400)
  areas = []
  for row in range(300):
    result = ops_image.inception_crop(image, seed(row), 16, area_min=20.0)
    assert result.shape == (16, 16, 3)
    top, left, height, width = image.window
    assert top >= 0 and left >= 0
    assert top + height <= 300 and left + width <= 400
    assert 0.74 < width / height < 1.335
    areas.append(height * width / (300 * 400))
  assert min(areas) > 0.195 and max(areas) > 0.85
  # Windows that do not fit are drawn anew, so large ones are rarer.
  assert 0.45 < np.mean(areas) < 0.62


def test_inception_crop_draws_the_windows_of_tensorflows_defaults():
  """As big_vision's op, which passes neither of the two proportions."""
  image = Recorder(200, 300)
  for row in range(50):
    ops_image.inception_crop(image, seed(row), 16)
    begin, extent, _ = tf.image.stateless_sample_distorted_bounding_box(
      (200, 300, 3),
      tf.zeros([0, 0, 4]),
      seed(row),
      min_object_covered=0.0,
      area_range=(0.05, 1.0),
      use_image_if_no_bounding_boxes=True,
    )
    expected = [*begin.numpy()[:2], *extent.numpy()[:2]]
    assert image.window.tolist() == expected


def test_inception_crop_depends_on_the_seed_alone():
  image = Recorder(100, 100)
  windows = []
  for row in (0, 1, 0):
    ops_image.inception_crop(image, seed(row), 8)
    windows.append(image.window.tolist())
  assert windows[0] == windows[2] != windows[1]


@pytest.mark.parametrize(
  "op", ["inception_crop", "central_crop", "random_crop"]
)
def test_cropping_a_jpeg_equals_cropping_its_pixels(op, encode, smooth):
  data = encode(smooth(90, 70), "JPEG", quality=95)
  whole = tf.io.decode_jpeg(data, channels=3)
  function = getattr(ops_image, op)
  fused = function(encoded.JpegImage(tf.constant(data)), seed(), 32).numpy()
  plain = function(encoded.PixelImage(whole), seed(), 32).numpy()
  # The colours' interpolation differs at the edge of a window.
  assert np.abs(fused.astype(int) - plain)[2:-2, 2:-2].max() <= 2


def test_pillow_agrees_on_a_plain_resize(smooth):
  pixels = smooth(64, 64)
  ours = ops_image.resize(pixel_image(pixels), seed(), 32, "area").numpy()
  theirs = np.asarray(Image.fromarray(pixels).resize((32, 32), Image.BOX))
  assert np.abs(ours.astype(int) - theirs).max() <= 1


@pytest.mark.parametrize("method", ["bilinear", "bicubic", "area"])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("size", [(7, 5), (30, 64)])
def test_resized_values_are_tensorflows_rounded(method, antialias, size):
  pixels = np.random.default_rng(1).integers(0, 256, (23, 41, 3), np.uint8)
  wanted = tf.image.resize(pixels, size, method=method, antialias=antialias)
  found = ops_image.resize_pixels(pixels, *size, method, antialias)
  wanted = np.clip(np.floor(wanted.numpy() + np.float32(0.5)), 0, 255)
  np.testing.assert_array_equal(found.numpy(), wanted)
