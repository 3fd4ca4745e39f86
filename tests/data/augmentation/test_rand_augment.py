"""What RandAugment draws, and what becomes of it."""

import functools

import numpy as np
import pytest
import scipy.stats
from PIL import Image, ImageEnhance, ImageOps

from tests.data.augmentation import test_geometric, test_photometric
from vit_jax.data.augmentation import rand_augment
from vit_jax.data.tf_import import tf

ROWS = 3000
FILL = rand_augment.IMAGENET_MEAN


def all_draws(draw):
  """The draws of many rows, NumPy, first axis the row."""
  rows = tf.data.Dataset.range(ROWS).map(
    lambda row: draw(tf.stack([tf.constant(7, tf.int64), row]))
  )
  return rand_augment.Draws(
    *map(np.stack, zip(*rows.as_numpy_iterator(), strict=True))
  )


@pytest.fixture(scope="module")
def timm():
  return all_draws(lambda seed: rand_augment.timm_draws(seed, 2, 9.0, 0.5))


@pytest.fixture(scope="module")
def big_vision():
  return all_draws(lambda seed: rand_augment.big_vision_draws(seed, 2, 10.0))


def p_of_evenness(values, num_choices):
  counts = np.bincount(values.ravel(), minlength=num_choices)
  assert len(counts) == num_choices
  return scipy.stats.chisquare(counts).pvalue


def test_timms_ops_are_drawn_evenly_and_half_are_left_out(timm):
  num_ops = len(rand_augment.TIMM_OPS)
  assert num_ops == 15
  applied = timm.op < num_ops
  assert scipy.stats.binomtest(applied.sum(), applied.size).pvalue > 0.01
  assert p_of_evenness(timm.op[applied], num_ops) > 0.01


def test_the_two_ops_of_an_image_are_independent(timm):
  table = np.zeros((30, 30), int)
  np.add.at(table, tuple(timm.op.T), 1)
  coarse = table.reshape(6, 5, 6, 5).sum((1, 3))
  assert scipy.stats.chi2_contingency(coarse).pvalue > 0.01
  assert np.trace(table) > 0  # Drawn with replacement.


def test_timms_magnitudes_are_normal_and_stop_at_10(timm):
  magnitude = timm.magnitude.ravel()
  cut_off = magnitude == 10
  above = scipy.stats.norm(9, 0.5).sf(10)
  assert scipy.stats.binomtest(cut_off.sum(), cut_off.size, above).pvalue > 0.01
  normal = scipy.stats.truncnorm(-np.inf, 2, 9, 0.5)
  test = scipy.stats.kstest(magnitude[~cut_off], normal.cdf)
  assert test.pvalue > 0.01


def test_a_std_of_0_leaves_the_magnitude_alone():
  draws = rand_augment.timm_draws(tf.constant([1, 2], tf.int64), 3, 7.0, 0.0)
  assert draws.magnitude.numpy().tolist() == [7.0] * 3


@pytest.mark.parametrize("name", ["timm", "big_vision"])
def test_signs_are_even_and_places_uniform(name, request):
  draws = request.getfixturevalue(name)
  positive = (draws.sign > 0).sum()
  assert set(np.unique(draws.sign)) == {-1, 1}
  assert scipy.stats.binomtest(positive, draws.sign.size).pvalue > 0.01
  for axis in (0, 1):
    place = draws.place[..., axis].ravel()
    assert scipy.stats.kstest(place, "uniform").pvalue > 0.01


def test_all_of_big_visions_ops_are_applied(big_vision):
  assert len(rand_augment.BIG_VISION_OPS) == 16
  assert p_of_evenness(big_vision.op, 16) > 0.01
  assert (big_vision.magnitude == 10).all()


def timm_by_pillow(image, name, magnitude, sign, increasing, resample):
  """timm's op of a name, its argument worked out as in timm's table."""
  level = magnitude / 10
  if name in ("AutoContrast", "Equalize", "Invert"):
    return getattr(ImageOps, name.lower())(image)
  if name == "Posterize":
    bits = 4 - int(level * 4) if increasing else int(level * 4)
    return test_photometric.posterize(image, bits)
  if name == "Solarize":
    threshold = int(level * 256)
    return ImageOps.solarize(
      image, 256 - threshold if increasing else threshold
    )
  if name == "SolarizeAdd":
    return test_photometric.solarize_add(image, int(level * 110))
  if name in ("Color", "Contrast", "Brightness", "Sharpness"):
    factor = (
      max(0.1, 1 + sign * level * 0.9) if increasing else level * 1.8 + 0.1
    )
    return getattr(ImageEnhance, name)(image).enhance(factor)
  if name == "Rotate":
    return image.rotate(sign * level * 30, resample=resample, fillcolor=FILL)
  function, unit = {
    "ShearX": ("shear_x", 0.3),
    "ShearY": ("shear_y", 0.3),
    "TranslateXRel": ("translate_x", 0.45),
    "TranslateYRel": ("translate_y", 0.45),
  }[name]
  return test_geometric.OPS[function](image, sign * level * unit, resample)


def chosen(op, magnitude, sign, place=(0.3, 0.3)):
  """Draws of one op."""
  return rand_augment.Draws(
    tf.constant([op]),
    tf.constant([magnitude], tf.float64),
    tf.constant([sign], tf.float64),
    tf.constant([place], tf.float32),
  )


@pytest.mark.parametrize("increasing", [True, False])
@pytest.mark.parametrize("name", rand_augment.TIMM_OPS)
def test_each_of_timms_ops_has_its_strength(name, increasing, scene):
  apply = functools.partial(
    rand_augment.timm, increasing=increasing, interpolation="bicubic", fill=FILL
  )
  op = rand_augment.TIMM_OPS.index(name)
  for magnitude, sign in ((8.437, -1), (3.1, 1), (10, 1), (10, -1), (0, 1)):
    result = apply(tf.constant(scene), chosen(op, magnitude, sign)).numpy()
    expected = timm_by_pillow(
      Image.fromarray(scene), name, magnitude, sign, increasing, Image.BICUBIC
    )
    difference = np.abs(result.astype(int) - np.asarray(expected))
    assert difference.max() <= 1 and np.mean(difference > 0) < 0.01


def test_an_op_that_is_left_out_changes_nothing(scene):
  for op in (15, 22, 29):
    result = rand_augment.timm(
      tf.constant(scene),
      chosen(op, 9.0, 1),
      increasing=True,
      interpolation="bicubic",
      fill=FILL,
    )
    assert np.array_equal(result.numpy(), scene)


def test_random_interpolation_is_of_two_kinds(scene):
  apply = functools.partial(
    rand_augment.timm, increasing=True, interpolation="random", fill=FILL
  )
  for place, resample in ((0.2, Image.BILINEAR), (0.7, Image.BICUBIC)):
    draws = chosen(rand_augment.TIMM_OPS.index("Rotate"), 5.2, 1, (place, 0))
    expected = Image.fromarray(scene).rotate(
      15.6, resample=resample, fillcolor=FILL
    )
    result = apply(tf.constant(scene), draws).numpy()
    assert np.abs(result.astype(int) - np.asarray(expected)).max() <= 1


def big_vision_in_numpy(pixels, name, magnitude, sign, place):
  """What big_vision's code computes, rounding apart."""
  x = pixels.astype(float)
  level = magnitude / 10
  height, width = pixels.shape[:2]
  if name in ("AutoContrast", "Equalize", "Invert"):
    return np.asarray(
      getattr(ImageOps, name.lower())(Image.fromarray(pixels)), float
    )
  if name == "Posterize":
    shift = min(8 - int(level * 4), 7)  # TensorFlow shifts by 7 at most.
    return pixels >> shift << shift
  if name == "Solarize":
    threshold = np.array(int(level * 256)).astype(np.uint8)
    return np.where(pixels < threshold, pixels, 255 - pixels)
  if name == "SolarizeAdd":
    added = np.clip(x + int(level * 110), 0, 255)
    return np.where(pixels < 128, added, x)
  if name in ("Color", "Contrast", "Brightness", "Sharpness"):
    start = {
      "Color": lambda: np.round(x @ [[0.2989], [0.587], [0.114]]),
      "Contrast": lambda: min(height * width / 256, 255),
      "Brightness": lambda: 0,
      "Sharpness": lambda: smoothed(x),
    }[name]()
    return np.clip(start + (level * 1.8 + 0.1) * (x - start), 0, 255)
  result = np.full_like(x, 128)
  rows, columns = np.mgrid[:height, :width]
  if name == "Cutout":
    half = int(level * 40)
    row, column = int(place[0] * height), int(place[1] * width)
    hole = (rows >= row - half) & (rows < row + half)
    hole &= (columns >= column - half) & (columns < column + half)
    return np.where(hole[..., None], 128, x)
  amount = sign * level
  if name == "Rotate":
    angle = np.radians(amount * 30)
    y, x_ = rows - (height - 1) / 2, columns - (width - 1) / 2
    from_row = np.sin(angle) * x_ + np.cos(angle) * y + (height - 1) / 2
    from_column = np.cos(angle) * x_ - np.sin(angle) * y + (width - 1) / 2
  else:
    from_row, from_column = np.float32(rows), np.float32(columns)
    if name == "ShearX":
      from_column += np.float32(amount * 0.3) * from_row
    elif name == "ShearY":
      from_row += np.float32(amount * 0.3) * from_column
    elif name == "TranslateX":
      from_column += amount * 100
    elif name == "TranslateY":
      from_row += amount * 100
  from_row = np.floor(from_row + 0.5).astype(int)
  from_column = np.floor(from_column + 0.5).astype(int)
  inside = (from_row >= 0) & (from_row < height)
  inside &= (from_column >= 0) & (from_column < width)
  result[inside] = x[from_row[inside], from_column[inside]]
  return result


def smoothed(x):
  result = x.copy()
  result[1:-1, 1:-1] = 4 / 13 * x[1:-1, 1:-1]
  for row in range(3):
    for column in range(3):
      part = x[row : row + x.shape[0] - 2, column : column + x.shape[1] - 2]
      result[1:-1, 1:-1] += part / 13
  return np.floor(result + 1e-6)


@pytest.mark.parametrize("name", rand_augment.BIG_VISION_OPS)
def test_each_of_big_visions_ops_computes_what_its_code_does(name, scene):
  op = rand_augment.BIG_VISION_OPS.index(name)
  place = (0.42, 0.77)
  for magnitude, sign in ((10, 1), (15, -1), (20, 1), (0, 1), (2.3, -1)):
    draws = chosen(op, magnitude, sign, place)
    result = rand_augment.big_vision(tf.constant(scene), draws).numpy()
    expected = big_vision_in_numpy(scene, name, magnitude, sign, place)
    difference = np.abs(result - expected)
    # A blend beyond the image multiplies a level of rounding.
    bound = 3.7 if name in ("Color", "Sharpness") else 1
    far = np.any(difference > bound, axis=-1)
    # In float32 a place between two pixels may fall on the other side.
    assert far.mean() < 0.002, (magnitude, far.mean())


def test_at_magnitude_10_big_visions_solarize_inverts():
  """As its threshold, 256, is 0 in the 8 bits of a pixel."""
  pixels = tf.constant(np.arange(48, dtype=np.uint8).reshape(4, 4, 3) * 5)
  op = rand_augment.BIG_VISION_OPS.index("Solarize")
  result = rand_augment.big_vision(pixels, chosen(op, 10, 1))
  assert np.array_equal(result.numpy(), 255 - pixels.numpy())
