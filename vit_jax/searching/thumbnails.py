"""Small pictures of image files, for a page."""

import io
import os
import pathlib
from collections.abc import Sequence

from PIL import Image, ImageOps

from vit_jax.data import image_formats, parallel

LONGEST_SIDE = 280  # Pixels; about twice what a page shows.
_QUALITY = 82


def jpegs(paths: Sequence[str]) -> dict[str, bytes | None]:
  """Maps paths to JPEG files; None: there is no image any more."""
  distinct = list(dict.fromkeys(paths))
  made = parallel.in_threads(
    _jpeg, distinct, num_threads=min(8, os.cpu_count() or 1)
  )
  return dict(zip(distinct, made, strict=True))


def _jpeg(path: str) -> bytes | None:
  try:
    data = pathlib.Path(path).read_bytes()
    with image_formats.open_image(data) as image:
      # Decoded small where the format can.
      image.draft("RGB", (2 * LONGEST_SIDE, 2 * LONGEST_SIDE))
      upright = image_formats.eight_bits(ImageOps.exif_transpose(image))
      picture = upright.convert("RGB")
  except Exception:  # Decoders fail in many ways that mean the same here.
    return None
  picture.thumbnail((LONGEST_SIDE, LONGEST_SIDE), Image.Resampling.LANCZOS)
  file = io.BytesIO()
  picture.save(file, "JPEG", quality=_QUALITY, optimize=True)
  return file.getvalue()
