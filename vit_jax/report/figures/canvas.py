"""A white canvas, saved as PNG at print resolution."""

import functools
import io
from collections.abc import Sequence

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageDraw, ImageFont

from vit_jax.report.figures.colours import INK, PAPER

# Pixels of the file per point; a page has 96 points per inch.
SCALE = 3
# Drawn at a higher resolution and averaged, for smooth edges.
_FINE = 2
FONT = 12.0
# Smaller pictures are enlarged without smoothing.
_SHARP_BELOW = 64


class Canvas:
  """A canvas with positions in points from the top left corner.

  Text is Latin without accents, as Pillow includes no other letters.
  """

  def __init__(self, width: float, height: float):
    self.width, self.height = float(width), float(height)
    size = (_pixels(width), _pixels(height))
    self._image = Image.new("RGB", size, PAPER)
    self._draw = ImageDraw.Draw(self._image)

  def text(
    self,
    x: float,
    y: float,
    words: str,
    *,
    colour: str = INK,
    anchor: str = "ls",
    turned: bool = False,
  ) -> None:
    """Draws text; `anchor` is Pillow's, 'ls' the left end of the baseline.

    Turned text reads upwards, centred at (x, y).
    """
    words = words.replace("\N{MINUS SIGN}", "-")
    font = _font()
    if not turned:
      place = (_pixels(x), _pixels(y))
      self._draw.text(place, words, fill=colour, font=font, anchor=anchor)
      return
    length, height = round(font.getlength(words)) + 4, _pixels(1.4 * FONT)
    mask = Image.new("L", (length, height))
    middle = (length // 2, height // 2)
    ImageDraw.Draw(mask).text(middle, words, fill=255, font=font, anchor="mm")
    mask = mask.transpose(Image.Transpose.ROTATE_90)
    corner = (_pixels(x) - mask.width // 2, _pixels(y) - mask.height // 2)
    self._image.paste(colour, corner, mask)

  def line(
    self,
    points: Sequence[tuple[float, float]],
    colour: str,
    width: float = 1.0,
    dash: float | None = None,
  ) -> None:
    """Draws a line through points, with dashes of `dash` points if given."""
    pixels = [(x * SCALE * _FINE, y * SCALE * _FINE) for x, y in points]
    wide = max(1, _pixels(width))
    if dash is None:
      self._draw.line(pixels, fill=colour, width=wide, joint="curve")
      return
    for one, other in zip(pixels, pixels[1:], strict=False):
      start, end = np.array(one), np.array(other)
      length = float(np.linalg.norm(end - start))
      for at in np.arange(0, length, 2 * _pixels(dash)):
        stop = min(at + _pixels(dash), length)
        piece = [tuple(start + (end - start) * s / length) for s in (at, stop)]
        self._draw.line(piece, fill=colour, width=wide)

  def dot(self, x: float, y: float, radius: float, colour: str) -> None:
    """Draws a disc with a thin white rim, which separates touching dots."""
    for r, fill in ((radius + 0.4, PAPER), (radius, colour)):
      box = [_pixels(v) for v in (x - r, y - r, x + r, y + r)]
      self._draw.ellipse(box, fill=fill)

  def picture(
    self,
    x: float,
    y: float,
    width: float,
    height: float,
    pixels: UInt8[np.ndarray, "h w 3"],
  ) -> None:
    """Draws pixels in a rectangle; small pictures are not smoothed."""
    left, top = _pixels(x), _pixels(y)
    size = (_pixels(x + width) - left, _pixels(y + height) - top)
    way = Image.Resampling.LANCZOS
    if max(pixels.shape[:2]) < _SHARP_BELOW:
      way = Image.Resampling.NEAREST
    image = Image.fromarray(np.ascontiguousarray(pixels))
    self._image.paste(image.resize(size, way), (left, top))

  def png(self) -> bytes:
    """Returns the PNG file."""
    file = io.BytesIO()
    dpi = (96 * SCALE, 96 * SCALE)
    self._image.reduce(_FINE).save(file, "PNG", optimize=True, dpi=dpi)
    return file.getvalue()


def text_width(words: str) -> float:
  """Returns the width of text in points."""
  return _font().getlength(words) / (SCALE * _FINE)


def _pixels(points: float) -> int:
  return round(points * SCALE * _FINE)


@functools.cache
def _font() -> ImageFont.FreeTypeFont:
  font = ImageFont.load_default(FONT * SCALE * _FINE)
  assert isinstance(font, ImageFont.FreeTypeFont)
  return font
