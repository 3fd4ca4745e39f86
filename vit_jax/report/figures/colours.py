"""Perceptually uniform colours for numbers.

Both maps are lines in OKLab, a space in which equal distances look about
equal: https://bottosson.github.io/posts/oklab/.
"""

import functools

import numpy as np
from jaxtyping import Float, UInt8

INK, MUTED, RULE, HAIR = "#1c1e21", "#5d636b", "#d9dbd6", "#ebece8"
PAPER, ACCENT = "#ffffff", "#c2410c"

_SIZE = 256  # Number of colours in a map.
# Lightness and hue (degrees) at the ends of a sequential map.
_DARK, _LIGHT = (0.2, 290.0), (0.95, 105.0)
_CHROMA = 0.13
# Lightness, chroma and hue at the ends of a diverging map; its middle is near
# white.
_LOW, _HIGH, _MIDDLE = (0.42, 0.14, 258.0), (0.42, 0.14, 30.0), 0.97

# OKLab -> cube roots of cone responses; these cubed -> linear sRGB.
_TO_ROOTS = np.array(
  [
    [1.0, 0.3963377774, 0.2158037573],
    [1.0, -0.1055613458, -0.0638541728],
    [1.0, -0.0894841775, -1.2914855480],
  ]
)
_TO_LINEAR = np.array(
  [
    [4.0767416621, -3.3077115913, 0.2309699292],
    [-1.2684380046, 2.6097574011, -0.3413193965],
    [-0.0041960863, -0.7034186147, 1.7076147010],
  ]
)


def sequential(
  values: Float[np.ndarray, "*shape"],
) -> UInt8[np.ndarray, "*shape 3"]:
  """Maps 0 to 1 from dark violet through green to light yellow."""
  return _look_up(_sequential_map(), values)


def diverging(
  values: Float[np.ndarray, "*shape"],
) -> UInt8[np.ndarray, "*shape 3"]:
  """Maps -1 to 1 from blue through near white to red."""
  return _look_up(_diverging_map(), (np.asarray(values) + 1) / 2)


def series(count: int) -> list[str]:
  """Returns colours for ordered lines on white, the last one darkest."""
  places = np.linspace(0.75, 0.05, count) if count > 1 else np.array([0.4])
  return ["#" + bytes(rgb).hex() for rgb in sequential(places)]


def _look_up(table: np.ndarray, values: np.ndarray) -> np.ndarray:
  places = np.rint(np.clip(values, 0, 1) * (_SIZE - 1)).astype(int)
  return table[places]


@functools.cache
def _sequential_map() -> UInt8[np.ndarray, "n 3"]:
  """Varies lightness and hue evenly, then resamples at equal distances."""
  t = np.linspace(0, 1, 16 * _SIZE)
  lightness = _DARK[0] + t * (_LIGHT[0] - _DARK[0])
  hue = np.radians(_DARK[1] + t * (_LIGHT[1] - _DARK[1]))
  colour = np.stack([np.cos(hue), np.sin(hue)], axis=-1)
  # Screens cannot show dark and light colours of such chroma; bisection finds
  # the maximum they can.
  low, high = np.zeros_like(t), np.full_like(t, _CHROMA)
  for _ in range(16):
    chroma = (low + high) / 2
    lab = np.column_stack([lightness, chroma[:, None] * colour])
    linear = _linear(lab)
    is_shown = ((linear >= 0) & (linear <= 1)).all(axis=-1)
    low = np.where(is_shown, chroma, low)
    high = np.where(is_shown, high, chroma)
  lab = np.column_stack([lightness, low[:, None] * colour])
  steps = np.linalg.norm(np.diff(lab, axis=0), axis=-1)
  along = np.concatenate([[0], np.cumsum(steps)])
  even = np.linspace(0, along[-1], _SIZE)
  lab = np.stack([np.interp(even, along, axis) for axis in lab.T], axis=-1)
  return _screen(lab)


@functools.cache
def _diverging_map() -> UInt8[np.ndarray, "n 3"]:
  middle = np.array([_MIDDLE, 0, 0])
  t = np.linspace(-1, 1, _SIZE)[:, None]
  low, high = _cartesian(*_LOW), _cartesian(*_HIGH)
  end = np.where(t < 0, low, high)
  return _screen(middle + np.abs(t) * (end - middle))


def _cartesian(lightness: float, chroma: float, hue: float) -> np.ndarray:
  angle = np.radians(hue)
  return np.array([lightness, chroma * np.cos(angle), chroma * np.sin(angle)])


def _linear(lab: Float[np.ndarray, "n 3"]) -> Float[np.ndarray, "n 3"]:
  return (lab @ _TO_ROOTS.T) ** 3 @ _TO_LINEAR.T


def _screen(lab: Float[np.ndarray, "n 3"]) -> UInt8[np.ndarray, "n 3"]:
  """Converts OKLab to sRGB bytes."""
  linear = np.clip(_linear(lab), 0, 1)
  root = 1.055 * linear ** (1 / 2.4) - 0.055
  encoded = np.where(linear <= 0.0031308, 12.92 * linear, root)
  return np.rint(255 * encoded).astype(np.uint8)
