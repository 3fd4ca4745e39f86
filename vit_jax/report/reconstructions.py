"""A reconstruction evaluator's section: images, masked and predicted."""

import dataclasses

from vit_jax.report import gallery
from vit_jax.report.run import Reconstructed, Reconstructions


@dataclasses.dataclass(frozen=True)
class Part:
  """One picture of an image.

  Attributes:
    source: Data URI; None if it could not be read.
    pixelated: True if it is enlarged without smoothing.
    alt: Text alternative.
  """

  source: str | None
  pixelated: bool
  alt: str


@dataclasses.dataclass(frozen=True)
class Item:
  """An image prepared for display: original, masked and predicted."""

  parts: list[Part]
  loss: str


@dataclasses.dataclass(frozen=True)
class Section:
  """The section of a page on one reconstruction evaluator."""

  name: str
  step: int
  images: list[Item]


def section(found: Reconstructions) -> Section:
  """Builds the section on the evaluator's latest step."""
  return Section(found.name, found.step, [_item(one) for one in found.images])


def _item(image: Reconstructed) -> Item:
  pictures = {
    f"Image {image.id}": image.original,
    f"What was seen of image {image.id}": image.masked,
    f"What was predicted of image {image.id}": image.reconstruction,
  }
  parts = [
    Part(*gallery.embedded(picture), alt) for alt, picture in pictures.items()
  ]
  return Item(parts, f"{image.loss:.3f}")
