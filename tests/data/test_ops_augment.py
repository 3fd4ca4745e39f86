import io

import numpy as np
import pytest
import scipy.stats
from PIL import Image, ImageEnhance, ImageFilter

from vit_jax.data import encoded, host_ops, ops_augment, spec
from vit_jax.data.tf_import import tf
from vit_jax.errors import UserError

STRINGS = (
  "decode|randaug(2, 9, 0.5, True)|resize",
  "decode|randaug(2, 9, 0, interpolation='random', fill=[0, 0, 0])|resize",
  "decode|randaug(2, 15)|resize",
  "decode|three_augment|resize",
  "decode|color_jitter(0.4, 0.4, 0.2, 0.1)|resize",
  "decode|gaussian_blur(0.5)|resize",
  "decode|solarize(p=0.5)|resize",
  "decode|greyscale(p=0.5)|resize",
  "decode|simple_random_crop",
  "decode|random_resized_crop",
  "decode|random_resized_crop(scale=[0.2, 1.0], interpolation='lanczos3')",
)


def seed(row=0):
  return tf.constant([7, row], tf.int64)


def pixel_image(pixels):
  return encoded.PixelImage(tf.constant(pixels))


def images_of(text, pixels, rows, *, size=24, seed=3):
  """The pictures that a string makes of one picture in several rows."""
  preprocess = spec.parse(text, size)
  ops = host_ops.HostOps(preprocess, seed=seed, is_encoded=False)
  rows = tf.data.Dataset.from_tensor_slices(np.array(rows, np.int64))
  as_it_is = tf.autograph.experimental.do_not_convert
  made = rows.map(as_it_is(lambda row: ops(tf.constant(pixels), row)))
  return np.stack(list(made.as_numpy_iterator()))


@pytest.mark.parametrize("text", STRINGS)
def test_pictures_depend_on_seed_and_row_alone(text, scene):
  again = [5, 11, 0]
  pictures = images_of(text, scene, [*range(12), *again])
  assert np.array_equal(pictures[again], pictures[12:])
  assert len(np.unique(pictures, axis=0)) > 1


def test_another_seed_makes_other_pictures(scene):
  text = "decode|random_resized_crop"
  first, same, other = (
    images_of(text, scene, range(4), seed=seed) for seed in (3, 3, 4)
  )
  assert np.array_equal(first, same)
  assert not np.array_equal(first, other)


@pytest.mark.parametrize(
  ("op", "words"),
  [
    ("randaug(0, 9)", "n = 0 is not valid: input should be greater than 0"),
    ("randaug(2)", "the argument 'm' is missing"),
    ("randaug(2, -1)", "m = -1 is not valid"),
    ("randaug(2, 11, 0.5)", "m = 11 is more than 10, timm's highest"),
    ("randaug(2, 21)", "m = 21 is more than 20, the highest magnitude"),
    ("randaug(2, 9, increasing=True)", "of timm's form, which has a std"),
    ("randaug(2, 9, 0.5, 1)", "increasing = 1 is not valid"),
    ("randaug(2, 9, -0.5)", "std = -0.5 is not valid"),
    ("randaug(2, 9, 0.5, fill=(0, 0))", "fill = (0, 0) is not valid"),
    ("randaug(2, 9, 0.5, interpolation='area')", "'area' is not valid"),
    ("randaugment(2, 9)", 'Did you mean "randaug"?'),
    ("three_augment(2)", "the arguments of three_augment: none"),
    ("color_jitter(0.3)", "the argument 'contrast' is missing"),
    ("color_jitter(0.3, 0.3, 0.3, 0.6)", "hue = 0.6 is not valid"),
    ("gaussian_blur(1.5)", "p = 1.5 is not valid"),
    ("gaussian_blur(radius_min=3.0)", "radius_min = 3.0 is more than"),
    ("solarize(300)", "threshold = 300 is not valid"),
    ("simple_random_crop(4)", "size = 4 is not valid"),
    ("random_resized_crop(scale=[0.5, 0.1])", "scale = (0.5, 0.1) is a range"),
    ("random_resized_crop(scale=[8, 100])", "is not valid"),
    ("random_resized_crop(ratio=0.75)", "ratio = 0.75 is not valid"),
  ],
)
def test_what_an_op_cannot_do_is_answered_with_a_sentence(op, words):
  with pytest.raises(UserError) as error:
    spec.parse(f"decode|{op}", 32)
  assert words in str(error.value)
  assert op in str(error.value)


def test_three_augment_does_one_of_three_about_as_often(scene):
  grey = np.asarray(Image.fromarray(scene).convert("L").convert("RGB"))
  solarized = np.where(scene < 128, scene, 255 - scene)
  counts = np.zeros(3)
  for picture in images_of(
    "decode|three_augment", scene[:80], range(300), size=80
  ):
    if np.array_equal(picture, grey[:80]):
      counts[0] += 1
    elif np.array_equal(picture, solarized[:80]):
      counts[1] += 1
    else:
      counts[2] += 1
  assert scipy.stats.chisquare(counts).pvalue > 0.01


def drawn_factor(low, high, rows=600):
  """The factors that color_jitter drew for its brightness, by the result."""
  pixels = np.full((2, 2, 3), 100, np.uint8)
  amount = high - 1
  pictures = images_of(
    f"decode|color_jitter({amount}, 0.0, 0.0)", pixels, range(rows), size=2
  )
  return pictures[:, 0, 0, 0] / 100


def test_a_factor_is_drawn_evenly_and_is_at_least_0():
  factors = drawn_factor(0.6, 1.4) + 0.005  # Cut off to hundredths.
  test = scipy.stats.kstest(factors, scipy.stats.uniform(0.6, 0.8).cdf)
  assert test.pvalue > 0.01
  assert drawn_factor(0.0, 2.5).min() < 0.03


def test_the_parts_of_color_jitter_come_in_any_order(scene):
  """Contrast and brightness do not commute; both orders are found."""
  pixels = scene[:80]
  image = Image.fromarray(pixels)
  text = "decode|color_jitter(0.0, 0.5, 0.5)"
  found = {True: 0, False: 0}
  draws = tf.random.stateless_uniform
  for row in range(40):
    one_seed = seed(row)
    order, contrast, saturation = draws((3,), one_seed).numpy()
    parts = [
      lambda x, f=0.5 + contrast: ImageEnhance.Contrast(x).enhance(f),
      lambda x, f=0.5 + saturation: ImageEnhance.Color(x).enhance(f),
    ]
    result = ops_augment.color_jitter(
      pixel_image(pixels), one_seed, 0.0, 0.5, 0.5
    ).numpy()
    orders = [parts[1](parts[0](image)), parts[0](parts[1](image))]
    same = [np.array_equal(result, np.asarray(one)) for one in orders]
    assert any(same), (text, row)
    found[same[0]] += 1
  assert min(found.values()) > 8


def test_gaussian_blur_has_its_probability_and_radius(scene):
  pixels = scene[:80]
  pictures = images_of(
    "decode|gaussian_blur(0.3, 0.1, 2.0)", pixels, range(300), size=80
  )
  blurred = [p for p in pictures if not np.array_equal(p, pixels)]
  assert scipy.stats.binomtest(len(blurred), 300, 0.3).pvalue > 0.01
  # A narrow range is the filter of that radius.
  result = ops_augment.gaussian_blur(pixel_image(pixels), seed(), 1.0, 1.5, 1.5)
  expected = Image.fromarray(pixels).filter(ImageFilter.GaussianBlur(1.5))
  assert np.array_equal(result.numpy(), np.asarray(expected))


@pytest.mark.parametrize("op", ["greyscale(p=0.2)", "solarize(128, 0.2)"])
def test_an_op_of_a_probability_is_applied_as_often(op, scene):
  pixels = scene[:80]
  pictures = images_of(f"decode|{op}", pixels, range(400), size=80)
  changed = sum(not np.array_equal(p, pixels) for p in pictures)
  assert scipy.stats.binomtest(changed, 400, 0.2).pvalue > 0.01


def test_simple_random_crop_reflects_and_takes_every_place_as_often():
  pixels = np.zeros((20, 30, 3), np.uint8)
  pixels[..., 0], pixels[..., 1] = np.mgrid[:20, :30]
  padded = np.pad(pixels, [(4, 4), (4, 4), (0, 0)], mode="reflect")
  counts = np.zeros((9, 19))
  for crop in images_of(
    "decode|simple_random_crop", pixels, range(900), size=20
  ):
    # The first pixel's neighbours tell on which side of the mirror it is.
    places = [
      (top, left)
      for top in range(9)
      for left in range(19)
      if np.array_equal(padded[top : top + 20, left : left + 20], crop)
    ]
    assert len(places) == 1
    counts[places[0]] += 1
  assert scipy.stats.chisquare(counts.sum(1)).pvalue > 0.01
  assert scipy.stats.chisquare(counts.sum(0)).pvalue > 0.01


class Recorder:
  """An image that records the windows that are cut out."""

  def __init__(self, height, width):
    self.size = height, width
    self.windows = []

  def shape(self):
    return tf.constant([*self.size, 3])

  def pixels(self):
    raise AssertionError("the whole image was decoded")

  def crop(self, window):
    self.windows.append(window.numpy())
    return tf.zeros([*window.numpy()[2:], 3], tf.uint8)


def windows(height, width, rows=400, **options):
  image = Recorder(height, width)
  for row in range(rows):
    ops_augment.random_resized_crop(image, seed(row), 8, **options)
  return np.array(image.windows).T


def torchvision_windows(height, width, rng, rows, scale, ratio):
  """The sampling of RandomResizedCrop, written out with NumPy's numbers."""
  found = []
  for _ in range(rows):
    for _ in range(10):
      area = height * width * rng.uniform(*scale)
      aspect = np.exp(rng.uniform(*np.log(ratio)))
      w, h = round(np.sqrt(area * aspect)), round(np.sqrt(area / aspect))
      if 0 < w <= width and 0 < h <= height:
        top, left = rng.integers(height - h + 1), rng.integers(width - w + 1)
        found.append((top, left, h, w))
        break
    else:
      w, h = width, height
      if width / height < ratio[0]:
        h = round(width / ratio[0])
      elif width / height > ratio[1]:
        w = round(height * ratio[1])
      found.append(((height - h) // 2, (width - w) // 2, h, w))
  return np.array(found).T


@pytest.mark.parametrize("shape", [(300, 400), (200, 900)])
def test_windows_are_distributed_as_torchvisions(shape):
  ours = windows(*shape)
  rng = np.random.default_rng(1)
  theirs = torchvision_windows(*shape, rng, 4000, (0.08, 1), (3 / 4, 4 / 3))
  top, left, height, width = ours
  assert (top >= 0).all() and (top + height <= shape[0]).all()
  assert (left >= 0).all() and (left + width <= shape[1]).all()
  compared = [*zip(ours, theirs, strict=True)]
  compared.append((height * width, theirs[2] * theirs[3]))
  compared.append((width / height, theirs[3] / theirs[2]))
  for one, other in compared:
    assert scipy.stats.ks_2samp(one, other).pvalue > 0.01


@pytest.mark.parametrize("shape", [(50, 1000), (1000, 50)])
def test_a_part_that_never_fits_is_the_central_one(shape):
  found = windows(*shape, rows=5, scale=(0.9, 1.0))
  expected = torchvision_windows(
    *shape, np.random.default_rng(0), 1, (0.9, 1), (3 / 4, 4 / 3)
  )
  assert (found == expected).all()


@pytest.mark.parametrize(
  ("method", "filter", "most"),
  [
    # Pillow rounds between its two passes, where bicubic overshoots.
    ("bilinear", Image.BILINEAR, 1),
    ("bicubic", Image.BICUBIC, 7),
    ("lanczos3", Image.LANCZOS, 14),
  ],
)
def test_shrinking_averages_as_pillow(method, filter, most, photographs):
  for pixels in photographs:
    result = ops_augment.random_resized_crop(
      pixel_image(pixels), seed(), 96, (1.0, 1.0), (1.0, 1.0), method
    )
    expected = np.asarray(Image.fromarray(pixels).resize((96, 96), filter))
    difference = np.abs(result.numpy().astype(int) - expected)
    assert difference.max() <= most
    assert difference.mean() < 0.3


def test_a_window_of_a_jpeg_equals_that_of_its_pixels(smooth):
  file = io.BytesIO()
  Image.fromarray(smooth(90, 70)).save(file, "JPEG", quality=95)
  data = tf.constant(file.getvalue())
  whole = encoded.PixelImage(tf.io.decode_jpeg(data, channels=3))
  cut = ops_augment.random_resized_crop(encoded.JpegImage(data), seed(), 32)
  plain = ops_augment.random_resized_crop(whole, seed(), 32)
  difference = np.abs(cut.numpy().astype(int) - plain.numpy())
  # The colours' interpolation differs at the edge of a window.
  assert difference[2:-2, 2:-2].max() <= 2
