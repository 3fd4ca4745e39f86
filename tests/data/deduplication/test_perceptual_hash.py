"""A hash stays near where images look alike, and far where they do not."""

import io
import tarfile

import numpy as np
import pytest
from PIL import Image
from scipy import fft

from vit_jax.data.deduplication import perceptual_hash

SIDE, BITS = perceptual_hash.SIDE, perceptual_hash.BITS


def noise(count, seed=0):
  shape = (count, SIDE, SIDE)
  return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def as_bits(hashes):
  """bool [n, BITS], in the order of the frequencies."""
  return np.unpackbits(hashes.view(np.uint8), axis=1).astype(bool)


def saved(image, format="JPEG", **options):
  file = io.BytesIO()
  image.save(file, format, **options)
  return file.getvalue()


def hash_of(*files):
  """Of the whole images."""
  found = [perceptual_hash.thumbnails(file)[0] for file in files]
  return perceptual_hash.hashes(np.stack(found))


def views_of(*files):
  found = np.stack([perceptual_hash.thumbnails(file) for file in files])
  hashes = perceptual_hash.hashes(found.reshape(-1, SIDE, SIDE))
  return hashes.reshape(len(files), perceptual_hash.VIEWS, -1)


def test_bits_are_signs_of_the_lowest_frequencies():
  images = noise(5)
  spectrum = fft.dctn(images.astype(float), axes=(1, 2))
  rows, columns = np.mgrid[:SIDE, :SIDE]
  radius = rows**2 + columns**2
  low = (radius > 0) & (radius < np.sort(radius.ravel())[BITS])
  bits = as_bits(perceptual_hash.hashes(images))
  assert bits.shape == (5, BITS)
  # Those of equal radius at the end are taken in part.
  assert low.sum() <= BITS
  np.testing.assert_array_equal(
    bits[:, : low.sum()].sum(1), (spectrum[:, low] > 0).sum(1)
  )
  first = spectrum[:, [0, 1, 1], [1, 0, 1]] > 0
  np.testing.assert_array_equal(bits[:, :3], first)


def test_brightness_and_contrast_change_nothing():
  images = noise(4) // 4
  expected = perceptual_hash.hashes(images)
  np.testing.assert_array_equal(
    perceptual_hash.hashes(3 * images + 10), expected
  )


def test_a_mirrored_hash_is_that_of_the_mirrored_image():
  images = noise(20)
  np.testing.assert_array_equal(
    perceptual_hash.mirrored(perceptual_hash.hashes(images)),
    perceptual_hash.hashes(images[:, :, ::-1]),
  )


def test_unrelated_images_differ_in_half_of_the_bits():
  hashes = perceptual_hash.hashes(noise(60))
  distances = perceptual_hash.distances(hashes[:, None], hashes[None])
  off_diagonal = distances[~np.eye(60, dtype=bool)]
  assert abs(off_diagonal.mean() - BITS / 2) < 1
  assert off_diagonal.min() > BITS / 4
  assert (np.diag(distances) == 0).all()


def test_images_of_one_colour_are_flat():
  images = np.full((3, SIDE, SIDE), 200, np.uint8)
  images[1, ::2] -= 1
  images[2, :8] = 0
  assert perceptual_hash.are_flat(images).tolist() == [True, True, False]


def test_pixels_and_files_give_the_same_views(smooth, encode):
  pixels = smooth(48, 60)
  expected = perceptual_hash.thumbnails(pixels)
  assert expected.shape == (2, SIDE, SIDE) and expected.dtype == np.uint8
  np.testing.assert_array_equal(
    perceptual_hash.thumbnails(encode(pixels)), expected
  )
  grey = np.asarray(Image.fromarray(pixels).convert("L"))
  np.testing.assert_array_equal(
    perceptual_hash.thumbnails(grey[..., None]), expected
  )


@pytest.mark.parametrize("shape", [(50, 90), (90, 50), (50, 91), (50, 50)])
def test_the_second_view_is_the_middle_square(smooth, encode, shape):
  pixels = smooth(*shape)
  top, left = ((length - 50) // 2 for length in shape)
  middle = pixels[top : top + 50, left : left + 50]
  views = perceptual_hash.thumbnails(encode(pixels)).astype(int)
  expected = perceptual_hash.thumbnails(encode(middle)).astype(int)
  np.testing.assert_array_equal(expected[0], expected[1])
  # Half a pixel is lost where the rest cannot be halved.
  assert np.abs(views[1] - expected[0]).max() <= 4 * (sum(shape) % 2)


def test_a_turned_photograph_is_seen_as_a_viewer_shows_it(encode):
  pixels = noise(1)[0].repeat(2, axis=0).repeat(3, axis=1)
  exif = Image.Exif()
  exif[0x0112] = 6  # To be turned by 90 degrees clockwise.
  turned = encode(np.rot90(pixels), "JPEG", quality=95, exif=exif)
  plain = encode(pixels, "JPEG", quality=95)
  hashes = hash_of(turned, plain)
  assert perceptual_hash.distances(hashes[:1], hashes[1:]) <= 4


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "CMYK", "1"])
def test_images_of_any_kind_have_a_thumbnail(smooth, mode):
  image = Image.fromarray(smooth(40, 40)).convert(mode)
  format = "JPEG" if mode == "CMYK" else "PNG"
  found = perceptual_hash.thumbnails(saved(image, format))
  assert found.shape == (2, SIDE, SIDE) and found[0].std() > 5


def test_of_sixteen_bits_the_upper_eight_are_seen(smooth):
  grey = smooth(40, 40)[..., 0]
  deep = Image.fromarray(grey.astype(np.uint16) * 256 + 255)
  np.testing.assert_array_equal(
    perceptual_hash.thumbnails(saved(deep, "PNG")),
    perceptual_hash.thumbnails(grey[..., None]),
  )


def test_what_is_no_image_is_an_error():
  with pytest.raises(Exception, match="cannot identify"):
    perceptual_hash.thumbnails(b"text")


@pytest.fixture(scope="module")
def photographs(shared):
  """300 of ImageNet, upright, as Pillow has them."""
  with tarfile.open(shared / "data" / "imagenet_sample.tar") as archive:
    files = [archive.extractfile(m).read() for m in archive if m.isfile()]
  return [Image.open(io.BytesIO(file)).convert("RGB") for file in files]


def halved(image, rng):
  return saved(image.resize((image.width // 2, image.height // 2)))


def tiny(image, rng):
  return saved(image.resize((32, 32)), "PNG")


def compressed(image, rng):
  return saved(image, quality=10)


def colourless(image, rng):
  return saved(image.convert("L"))


def brighter(image, rng):
  return saved(image.point(lambda value: min(255, value * 1.3)))


def cropped(share):
  def crop(image, rng):
    width, height = (round(side * (1 - share)) for side in image.size)
    left = rng.integers(0, image.width - width + 1)
    top = rng.integers(0, image.height - height + 1)
    return saved(image.crop((left, top, left + width, top + height)))

  return crop


def middle(image, rng):
  side = min(image.size)
  left, top = ((length - side) // 2 for length in image.size)
  return saved(image.crop((left, top, left + side, top + side)))


@pytest.mark.slow
@pytest.mark.parametrize(
  "change, recall",
  [
    (halved, 1.0),
    (tiny, 1.0),
    (compressed, 1.0),
    (colourless, 1.0),
    (brighter, 0.99),
    (middle, 0.99),
    (cropped(0.02), 0.95),
    (cropped(0.05), 0.5),
  ],
  ids="half 32px quality10 grey bright middle crop2% crop5%".split(),
)
def test_changed_photographs_are_near_and_others_far(
  photographs, change, recall
):
  """Recall as measured, less a few of 300; no other photograph is near."""
  rng = np.random.default_rng(0)
  originals = views_of(*(saved(image, quality=95) for image in photographs))
  changed = views_of(*(change(image, rng) for image in photographs))
  distances = perceptual_hash.distances(
    changed[:, None, :, None], originals[None, :, None]
  ).min(axis=(2, 3))
  near = distances <= perceptual_hash.NEAR
  assert np.diag(near).mean() >= recall
  assert not near[~np.eye(300, dtype=bool)].any()
