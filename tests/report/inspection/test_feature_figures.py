"""Pictures of features."""

import io

import numpy as np
from PIL import Image

from vit_jax.report.figures import canvas
from vit_jax.report.inspection import feature_figures

PHOTOS = [np.zeros((16, 16, 3), np.uint8)] * 2


def test_the_colours_of_an_image_stand_below_it():
  pixels = np.zeros((2, 2, 2, 3), np.uint8)
  pixels[0], pixels[1] = (250, 10, 20), (10, 20, 250)
  shares = np.array([0.5, 0.25, 0.125])
  figure = feature_figures.draw(PHOTOS, pixels, shares, 70)
  with Image.open(io.BytesIO(figure.canvas.png())) as image:
    points = np.asarray(image.reduce(canvas.SCALE)).astype(int)
  is_red = np.abs(points - (250, 10, 20)).max(axis=-1) < 10
  is_blue = np.abs(points - (10, 20, 250)).max(axis=-1) < 10
  is_black = points.max(axis=-1) < 10
  assert np.argwhere(is_red)[:, 0].min() > points.shape[0] / 2
  assert np.argwhere(is_red)[:, 1].max() < np.argwhere(is_blue)[:, 1].min()
  photos = np.argwhere(is_black)
  assert np.count_nonzero(photos[:, 0] < points.shape[0] / 2) > 2 * 90 * 90
  assert "70 images" in figure.caption
  assert "50.0%, 25.0%, 12.5%" in figure.caption
