"""A perceptual hash: bits that rarely change unless people see a change.

An image is reduced to 32 x 32 grey values; the bits are the signs of its lowest
frequencies in a discrete cosine transform. Scaling and compression change
hardly any bits, small crops only a few. The distance is the number of differing
bits.

Datasets often contain the central square of a photograph, which by this measure
is far from the whole, so an image has two views: the whole and that square. The
package imagehash has neither the views, nor the hash of the mirror image
without decoding again, nor thousands of hashes at once.
"""

import numpy as np
from PIL import Image, ImageOps

from vit_jax.data import image_formats

SIDE = 32  # Side of thumbnails, pixels.
VIEWS = 2  # The whole image, and its central square.
BITS = 128
VERSION = 2  # Increased when hashes change.
NEAR = 20  # Differing bits of near images; see docs/deduplication.md.
_WORD = 64

# Standard deviation of grey values below which the signs are noise.
_MIN_CONTRAST = 2.0


def thumbnails(image: bytes | np.ndarray) -> np.ndarray:
  """Returns small grey views of an image: uint8 [VIEWS, SIDE, SIDE].

  Args:
    image: Encoded file, or pixels, uint8 [h, w, 1 or 3].

  Raises:
    Exception: Of various types, if the image cannot be decoded.
  """
  if isinstance(image, np.ndarray):
    pixels = image[..., 0] if image.shape[-1] == 1 else image
    return _views(Image.fromarray(pixels))
  with image_formats.open_image(image) as opened:
    # JPEGs are decoded at a fraction of their size, in a fraction of the time.
    opened.draft("L", (2 * SIDE, 2 * SIDE))
    return _views(image_formats.eight_bits(ImageOps.exif_transpose(opened)))


def _views(image: Image.Image) -> np.ndarray:
  grey = image.convert("L")
  side = min(grey.size)
  left, top = ((length - side) / 2 for length in grey.size)
  boxes = ((0, 0, *grey.size), (left, top, left + side, top + side))
  views = [
    grey.resize((SIDE, SIDE), Image.Resampling.BOX, box) for box in boxes
  ]
  return np.stack([np.asarray(view) for view in views])


def _frequencies() -> np.ndarray:
  """Returns int [BITS, 2]: row and column of the lowest except the mean."""
  pairs = np.stack(np.mgrid[:SIDE, :SIDE], axis=-1).reshape(-1, 2)
  order = np.lexsort((pairs[:, 0], (pairs**2).sum(axis=1)))
  return pairs[order[1 : BITS + 1]]


_FREQUENCIES = _frequencies()
_COSINES = np.cos(
  np.pi / SIDE * np.outer(np.arange(SIDE), np.arange(SIDE) + 0.5)
)[: _FREQUENCIES.max() + 1]


def hashes(views: np.ndarray) -> np.ndarray:
  """Hashes thumbnails, uint8 [n, SIDE, SIDE], to uint64 [n, BITS / 64]."""
  coefficients = _COSINES @ views.astype(np.float64) @ _COSINES.T
  return _packed(coefficients[:, _FREQUENCIES[:, 0], _FREQUENCIES[:, 1]] > 0)


def mirrored(values: np.ndarray) -> np.ndarray:
  """Returns the hashes of the mirror images, uint64 [n, BITS / 64].

  Mirroring changes the sign of every odd frequency along a row.
  """
  return values ^ _packed(_FREQUENCIES[None, :, 1] % 2 == 1)


def are_flat(views: np.ndarray) -> np.ndarray:
  """Marks thumbnails, uint8 [n, SIDE, SIDE], with too little contrast to hash.

  Blank pages are an example.
  """
  return views.std(axis=(1, 2)) < _MIN_CONTRAST


def distances(first: np.ndarray, second: np.ndarray) -> np.ndarray:
  """Counts differing bits, int64 [...], for uint64 [..., BITS / 64] each."""
  return np.bitwise_count(first ^ second).sum(axis=-1, dtype=np.int64)


def _packed(bits: np.ndarray) -> np.ndarray:
  """Packs bool [n, BITS] into uint64 [n, BITS / 64]."""
  packed = np.ascontiguousarray(np.packbits(bits, axis=1))
  return packed.view(f"<u{_WORD // 8}")
