"""Charts as pictures, for files other than web pages."""

import re
from xml.etree import ElementTree

from vit_jax.report.figures import colours, svg
from vit_jax.report.figures.canvas import Canvas

# Classes of style.css, for a white background.
_STROKES = {"grid": colours.HAIR, "axis": colours.MUTED}
_WIDTHS = {"line": 1.9}
_ANCHORS = {"middle": "ms", "end": "rs"}


def paint(figure: svg.Markup) -> Canvas:
  """Paints a figure of lines, polylines, circles and text.

  Series need explicit colours: those of the page's classes `s0` to `s5` are
  unknown here.

  Raises:
    ValueError: The figure has an element that cannot be painted.
  """
  root = ElementTree.fromstring(figure)
  canvas = Canvas(*map(float, root.get("viewBox", "").split()[2:]))
  for element in root.iter():
    _paint(canvas, element)
  return canvas


def _paint(canvas: Canvas, element: ElementTree.Element) -> None:
  get, classes = element.get, element.get("class", "").split()

  def numbers(*names: str) -> list[float]:
    return [float(get(name, "0")) for name in names]

  if element.tag in ("line", "path"):
    if element.tag == "line":
      x1, y1, x2, y2 = numbers("x1", "y1", "x2", "y2")
      points = [(x1, y1), (x2, y2)]
    else:
      flat = [float(word) for word in re.findall(r"[\d.]+", get("d", ""))]
      points = list(zip(flat[::2], flat[1::2], strict=True))
    stroke = _first(_STROKES, classes, get("stroke", colours.INK))
    dash = get("stroke-dasharray")
    canvas.line(
      points,
      stroke,
      _first(_WIDTHS, classes, 1.0),
      float(dash.split()[0]) if dash else None,
    )
  elif element.tag == "circle":
    canvas.dot(*numbers("cx", "cy", "r"), get("fill", colours.INK))
  elif element.tag == "text":
    is_muted = {"tick", "axis-name"} & set(classes)
    canvas.text(
      *numbers("x", "y"),
      element.text or "",
      colour=colours.MUTED if is_muted else colours.INK,
      anchor=_first(_ANCHORS, classes, "ls"),
    )
  elif element.tag not in ("svg", "g"):
    raise ValueError(f"<{element.tag}> cannot be painted.")


def _first(table: dict, classes: list[str], otherwise):
  return next((table[one] for one in classes if one in table), otherwise)
