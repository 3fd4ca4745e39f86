"""A picture with its title and caption."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from vit_jax.report.figures.canvas import Canvas


@dataclasses.dataclass(frozen=True)
class Figure:
  """One picture.

  Attributes:
    name: Name of its file, without '.png'.
    title: Title of a few words.
    caption: Sentences on the content, its units and the amount of data.
    canvas: The picture.
    numbers: Arrays behind it, by name.
  """

  name: str
  title: str
  caption: str
  canvas: Canvas
  numbers: Mapping[str, np.ndarray]
