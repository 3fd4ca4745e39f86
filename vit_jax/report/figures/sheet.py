"""Pictures side by side in rows, with names and an optional colour bar."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from jaxtyping import UInt8

from vit_jax.report.figures.canvas import FONT, Canvas, text_width
from vit_jax.report.figures.colours import INK, MUTED, RULE

Pictures = Sequence[np.ndarray] | UInt8[np.ndarray, "_ _ _ 3"]

_MARGIN = 4.0
_BAR_WIDTH, _BAR_ROOM = 12.0, 68.0


@dataclasses.dataclass(frozen=True)
class Row:
  """Pictures of one row.

  Attributes:
    pictures: Pictures from left to right.
    name: Text at the left; '' for none.
    titles: Text above each picture; () for none.
  """

  pictures: Sequence[UInt8[np.ndarray, "_ _ 3"]]
  name: str = ""
  titles: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class ColourBar:
  """A legend that maps colours to values.

  Attributes:
    colours: Maps values [n] to colours, uint8 [n, 3].
    low, high: Values at its ends.
    ticks: Values with their labels.
    label: Name of the measured quantity.
  """

  colours: Callable[[np.ndarray], np.ndarray]
  low: float
  high: float
  ticks: Sequence[tuple[float, str]]
  label: str


def draw(
  rows: Sequence[Row],
  *,
  side: float,
  gap: float = 4.0,
  row_label: str = "",
  column_label: str = "",
  bar: ColourBar | None = None,
) -> Canvas:
  """Draws the sheet.

  Args:
    rows: Rows, at least one.
    side: Side of a picture, in points.
    gap: Gap between pictures, in points.
    row_label: Heading of the rows' names, written upwards next to them.
    column_label: Heading of the titles, written above them.
    bar: Colour bar at the right.
  """
  names = max(text_width(row.name) for row in rows)
  left = _MARGIN + (names + 8 if names else 0) + (20 if row_label else 0)
  columns = max(len(row.pictures) for row in rows)
  right = left + columns * (side + gap) - gap
  top = _MARGIN + (20 if column_label else 0)
  tops = []
  bottom = top
  for row in rows:
    # A titled row has a gap above it.
    bottom += (FONT + 8 + (4 if tops else 0)) if row.titles else 0
    tops.append(bottom)
    bottom += side + gap
  bottom -= gap
  width = right + (_BAR_ROOM if bar else 0) + _MARGIN
  canvas = Canvas(max(width, left + text_width(column_label)), bottom + _MARGIN)
  for row, y in zip(rows, tops, strict=True):
    canvas.text(left - 8, y + side / 2, row.name, colour=MUTED, anchor="rm")
    for number, pixels in enumerate(row.pictures):
      x = left + number * (side + gap)
      canvas.picture(x, y, side, side, pixels)
      if row.titles:
        middle = x + side / 2
        words = row.titles[number]
        canvas.text(middle, y - 6, words, colour=MUTED, anchor="ms")
  if row_label:
    canvas.text(_MARGIN + 6, (tops[0] + bottom) / 2, row_label, turned=True)
  if column_label:
    middle = max((left + right) / 2, left + text_width(column_label) / 2)
    canvas.text(middle, _MARGIN + FONT, column_label, anchor="ms")
  if bar:
    _draw_bar(canvas, bar, right + 14, tops[0], bottom)
  return canvas


def grid(named: Mapping[str, Pictures], titles: Sequence[str]) -> list[Row]:
  """Builds rows by name, with titles above the first one."""
  return [
    Row(list(pictures), name, () if number else titles)
    for number, (name, pictures) in enumerate(named.items())
  ]


def bands(named: Mapping[str, Pictures], beside: int = 6) -> list[Row]:
  """Builds rows of each kind for the first `beside` images, then the next."""
  count = len(next(iter(named.values())))
  rows = []
  for start in range(0, count, beside):
    stop = min(start + beside, count)
    part = {name: pictures[start:stop] for name, pictures in named.items()}
    rows += grid(part, [str(n + 1) for n in range(start, stop)])
  return rows


def _draw_bar(
  canvas: Canvas, bar: ColourBar, x: float, top: float, bottom: float
) -> None:
  """Draws the bar, at most 200 points high, centred in the space."""
  middle = (top + bottom) / 2
  high = min(200.0, bottom - top)
  top, bottom = middle - high / 2, middle + high / 2
  values = np.linspace(bar.high, bar.low, 256)
  strip = np.repeat(bar.colours(values)[:, None], 2, axis=1)
  canvas.picture(x, top, _BAR_WIDTH, high, strip)
  corners = [(x, top), (x + _BAR_WIDTH, top), (x + _BAR_WIDTH, bottom)]
  canvas.line([*corners, (x, bottom), (x, top)], RULE)
  for value, words in bar.ticks:
    y = bottom - (value - bar.low) / (bar.high - bar.low) * high
    canvas.line([(x + _BAR_WIDTH, y), (x + _BAR_WIDTH + 3, y)], MUTED)
    place = (x + _BAR_WIDTH + 6, y)
    canvas.text(*place, words, colour=MUTED, anchor="lm")
  label = x + _BAR_WIDTH + 30
  canvas.text(label, middle, bar.label, colour=INK, turned=True)
