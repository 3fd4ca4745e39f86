"""A contact sheet: the pictures found for each query, on one page."""

import base64
import dataclasses
import pathlib
import struct
from collections.abc import Sequence

from vit_jax import printable
from vit_jax.report import pages
from vit_jax.report.formatting import count


@dataclasses.dataclass(frozen=True)
class Picture:
  """An image on the page.

  Attributes:
    path: Path of its file.
    jpeg: A small copy of it; None if the file is gone.
    score: Its similarity to the query; None for the query itself.
  """

  path: str
  jpeg: bytes | None
  score: float | None = None

  @property
  def source(self) -> str | None:
    """Returns the data URI."""
    if self.jpeg is None:
      return None
    return f"data:image/jpeg;base64,{base64.b64encode(self.jpeg).decode()}"

  @property
  def ratio(self) -> float:
    """Returns width / height, limited to what a page can show."""
    width, height = _jpeg_size(self.jpeg) if self.jpeg else (1, 1)
    return min(max(width / height, 0.5), 3.0)

  @property
  def name(self) -> str:
    return pathlib.PurePath(self.path).name

  @property
  def link(self) -> str:
    return pathlib.Path(self.path).absolute().as_uri()


@dataclasses.dataclass(frozen=True)
class Answer:
  """A query and its results, best first.

  Attributes:
    query: The text, or the path of the picture.
    picture: The query, if it is a picture.
    found: The results.
  """

  query: str
  picture: Picture | None
  found: Sequence[Picture]


def render(
  answers: Sequence[Answer],
  *,
  images: str,
  num_images: int,
  num_unreadable: int,
  checkpoint: str,
  step: int | None,
) -> bytes:
  """Renders an HTML file that loads nothing from the network.

  Args:
    answers: Queries in order.
    images: The folder that was searched.
    num_images: Number of images in it.
    num_unreadable: Number of files in it that cannot be read as images.
    checkpoint: Path of the checkpoint.
    step: Step of the checkpoint; None for a published file.
  """
  queries = f"{len(answers)} queries" if len(answers) != 1 else "One query"
  page = (
    pages.environment()
    .get_template("contact_sheet.html")
    .render(
      title=pathlib.PurePath(images).name or "Images",
      lead=f"{queries} among {count(num_images)} images of {images}.",
      folder=lambda picture: _folder(picture.path, images),
      answers=answers,
      checkpoint=checkpoint,
      step=step,
      num_unreadable=num_unreadable,
    )
  )
  return printable.in_utf8(page).encode()


def _folder(path: str, images: str) -> str:
  """Returns a file's folder, relative to that of all images if inside it."""
  parent = pathlib.PurePath(path).parent
  if parent.is_relative_to(images):
    parent = parent.relative_to(images)
  return "" if parent == pathlib.PurePath() else str(parent)


def _jpeg_size(data: bytes) -> tuple[int, int]:
  """Reads width and height from a JPEG's start-of-frame segment."""
  place = 2
  while place + 9 <= len(data):
    marker, length = struct.unpack(">xBH", data[place : place + 4])
    if 0xC0 <= marker <= 0xC2:
      height, width = struct.unpack(">HH", data[place + 5 : place + 9])
      return width, height
    place += 2 + length
  return 1, 1
