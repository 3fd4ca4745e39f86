"""A retrieval evaluator's section: queries with their nearest answers."""

import dataclasses

from vit_jax.report import gallery
from vit_jax.report.run import Retrievals, Shown


@dataclasses.dataclass(frozen=True)
class Item:
  """A query or an answer ready to be shown.

  Attributes:
    text: The caption; None: it is an image.
    source: Data URI of the image.
    pixelated: True if the image is enlarged by its pixels.
    alt: The image in words.
    right: Whether it belongs to the query; of a query, whether its first
      answer does.
    similarity: Cosine with the query.
    answers: What is nearest to a query, the nearest first.
  """

  text: str | None
  source: str | None
  pixelated: bool
  alt: str
  right: bool
  similarity: str
  answers: "list[Item]"


@dataclasses.dataclass(frozen=True)
class Section:
  """The part of a page on one retrieval evaluator."""

  name: str
  step: int
  text_to_image: list[Item]
  image_to_text: list[Item]


def section(found: Retrievals) -> Section:
  """The queries of the evaluator's newest step."""
  return Section(
    name=found.name,
    step=found.step,
    text_to_image=[_item(query) for query in found.text_to_image],
    image_to_text=[_item(query) for query in found.image_to_text],
  )


def _item(shown: Shown) -> Item:
  source, pixelated = gallery.embedded(shown.image)
  similarity = "" if shown.similarity is None else f"{shown.similarity:.3f}"
  return Item(
    text=shown.text,
    source=source,
    pixelated=pixelated,
    alt=f"Image {shown.id}",
    right=shown.right,
    similarity=similarity,
    answers=[_item(answer) for answer in shown.answers],
  )
