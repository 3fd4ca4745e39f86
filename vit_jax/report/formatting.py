"""Formatting of numbers in reports."""

import math
from typing import SupportsFloat

SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
MISSING = "–"


def count(value: int | float | None) -> str:
  """Formats '1,234,567'."""
  if value is None or not math.isfinite(value):
    return MISSING if value is None else str(value)
  return f"{value:,.0f}"


def counted(value: int | float, noun: str) -> str:
  """Formats '1 image' or '1,024 images'."""
  return f"{count(value)} {noun}" + ("" if value == 1 else "s")


def quantity(value: float | None, digits: int = 4) -> str:
  """Formats significant digits: '1,234', '0.0312', '3×10⁻⁵'."""
  if value is None:
    return MISSING
  if not math.isfinite(value):
    return "NaN" if math.isnan(value) else ("∞" if value > 0 else "−∞")
  if value == 0:
    return "0"
  # Formatted first: rounding may raise the exponent.
  mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
  exponent = int(power)
  if not -3 <= exponent <= 15:  # More digits would not be exact.
    mantissa = mantissa.rstrip("0").rstrip(".").replace("-", "−")
    tail = "10" + str(exponent).translate(SUPERSCRIPT)
    return tail if mantissa == "1" else f"{mantissa}×{tail}"
  text = f"{value:,.{max(digits - 1 - exponent, 0)}f}"
  text = text.rstrip("0").rstrip(".") if "." in text else text
  return text.replace("-", "−")


def percent(fraction: float | None, digits: int = 2) -> str:
  """Formats 0.98765 as '98.77%'."""
  if fraction is None:
    return MISSING
  if not math.isfinite(fraction):
    return "NaN"
  return f"{100 * fraction:.{digits}f}%"


def metric(value: SupportsFloat) -> str:
  """Formats six significant digits, but all of an integer: '1281167'."""
  number = float(value)
  is_whole = number.is_integer() and abs(number) < 1e15
  return f"{number:.0f}" if is_whole else f"{number:.6g}"


def tick(value: float) -> str:
  """Formats tick labels with all digits: '0.5', '1.38625'."""
  return quantity(value, 12)


def percent_tick(fraction: float) -> str:
  """Formats tick labels: 0.98 -> '98%', 0.985 -> '98.5%'."""
  return f"{tick(100 * fraction)}%"


def short_count(value: float) -> str:
  """Formats tick labels: '500', '1,500', '20k', '1.5M'."""
  for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
    if abs(value) >= max(size, 1e4):
      return f"{value / size:g}{letter}"
  return f"{value:,.0f}" if value == int(value) else f"{value:g}"


def flops(value: float) -> str:
  """Formats '3.46 TFLOPs' or '12 EFLOPs'."""
  for size, letter in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G")):
    if value >= size:
      return f"{quantity(value / size, 3)} {letter}FLOPs"
  return f"{quantity(value, 3)} FLOPs"


def seconds(value: float | None) -> str:
  """Formats '0.42 s', '59 s', '2 min 5 s', '3 h 12 min' or '2 d 4 h'."""
  if value is None or not math.isfinite(value):
    return MISSING
  if value < 9.95:
    return f"{value:.2g} s" if value < 0.995 else f"{value:.1f} s"
  whole = round(value)
  for size, big, small_size, small in (
    (86_400, "d", 3_600, "h"),
    (3_600, "h", 60, "min"),
    (60, "min", 1, "s"),
  ):
    if whole >= size:
      rest = (whole % size) // small_size
      return f"{whole // size} {big}" + (f" {rest} {small}" if rest else "")
  return f"{whole} s"


def interval95(fraction: float, num_examples: int) -> tuple[float, float]:
  """Returns Wilson's 95 % interval of a proportion of `num_examples`."""
  z = 1.959964
  n = num_examples
  centre = fraction + z * z / (2 * n)
  spread = z * math.sqrt(
    max(fraction * (1 - fraction), 0) / n + z * z / (4 * n * n)
  )
  scale = 1 + z * z / n
  return (
    max((centre - spread) / scale, 0.0),
    min((centre + spread) / scale, 1.0),
  )
