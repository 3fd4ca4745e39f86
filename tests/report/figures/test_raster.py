"""Charts are painted where their SVG has them."""

import io

import numpy as np
import pytest
from PIL import Image

from vit_jax.report.figures import canvas, raster, svg


def painted(*children):
  figure = svg.figure(*children, width=40.0, height=30.0, label="A figure")
  with Image.open(io.BytesIO(raster.paint(figure).png())) as image:
    return np.asarray(image.reduce(canvas.SCALE)).astype(int)


def test_marks_stand_at_their_places_in_their_colours():
  found = painted(
    svg.element(
      "g",
      svg.element("circle", cx=10.0, cy=20.0, r=3.0, fill="#ff0000"),
      svg.element("path", d="M20.0 5.0L36.0 5.0", stroke="#0000ff"),
    )
  )
  assert found.shape == (30, 40, 3)
  assert found[20, 10].tolist() == [255, 0, 0]
  is_blue = (found[..., 2] > 200) & (found[..., 0] < 200)
  rows, columns = np.nonzero(is_blue)
  assert set(rows) <= {4, 5} and columns.min() >= 19 and columns.max() <= 36


def test_text_is_anchored_and_gridlines_are_light():
  found = painted(
    svg.element("text", "88", x=30.0, y=20.0, class_="tick end"),
    svg.element("line", x1=0.0, x2=40.0, y1=25.0, y2=25.0, class_="grid"),
  )
  _, columns = np.nonzero((found[:22] < 200).any(axis=-1))
  assert 14 < columns.min() and columns.max() <= 30
  assert 225 < found[24:26, 20].min() < 250


def test_an_element_that_cannot_be_painted_is_an_error():
  with pytest.raises(ValueError, match="<rect> cannot be painted"):
    painted(svg.element("rect", x=1.0, y=1.0, width=3.0, height=2.0))
