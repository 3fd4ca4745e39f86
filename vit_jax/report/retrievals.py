"""A retrieval evaluator's section: queries with their nearest answers."""

import dataclasses

from vit_jax.report import gallery
from vit_jax.report.run import Retrievals, Shown


@dataclasses.dataclass(frozen=True)
class Item:
  """A query or an answer prepared for display.

  Attributes:
    text: The caption; None if it is an image.
    source: Data URI of the image.
    pixelated: True if the image is enlarged without smoothing.
    alt: Text alternative of the image.
    right: Whether it belongs to the query; for a query, whether its first
      answer does.
    similarity: Cosine similarity to the query.
    answers: Answers to a query, nearest first.
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
  """The section of a page on one retrieval evaluator."""

  name: str
  step: int
  text_to_image: list[Item]
  image_to_text: list[Item]


def section(found: Retrievals) -> Section:
  """Builds the section on the evaluator's latest step."""
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
