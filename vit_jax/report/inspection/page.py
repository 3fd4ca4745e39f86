"""The page with all pictures: one self-contained HTML file."""

import base64
import dataclasses
import io
from collections.abc import Mapping, Sequence

import numpy as np

from vit_jax import printable
from vit_jax.report import pages
from vit_jax.report.inspection.figure import Figure

FILE, NUMBERS = "index.html", "numbers.npz"


@dataclasses.dataclass(frozen=True)
class Section:
  """Figures under a heading; remarks explain missing ones."""

  title: str
  figures: Sequence[Figure] = ()
  remarks: Sequence[str] = ()


def files(
  sections: Sequence[Section], *, title: str, lead: str, paths: Sequence[str]
) -> dict[str, bytes]:
  """Returns the files to write: pictures, numbers and the page, by name.

  Args:
    sections: Sections in order; figure names are unique.
    title: Name of the network.
    lead: A sentence about the network.
    paths: Paths of the images shown, numbered from 1.
  """
  figures = [figure for section in sections for figure in section.figures]
  pictures = {figure.name: figure.canvas.png() for figure in figures}
  html = _render(sections, pictures, title=title, lead=lead, paths=paths)
  numbers = io.BytesIO()
  arrays = {k: v for figure in figures for k, v in figure.numbers.items()}
  np.savez_compressed(numbers, **arrays)
  return {
    **{f"{name}.png": data for name, data in pictures.items()},
    NUMBERS: numbers.getvalue(),
    FILE: printable.in_utf8(html).encode(),
  }


def _render(
  sections: Sequence[Section],
  pictures: Mapping[str, bytes],
  *,
  title: str,
  lead: str,
  paths: Sequence[str],
) -> str:
  """Renders the page with `pictures`, PNG files by figure name."""
  sources = {
    name: f"data:image/png;base64,{base64.b64encode(data).decode()}"
    for name, data in pictures.items()
  }
  template = pages.environment().get_template("inspection.html")
  return template.render(
    title=title, lead=lead, sections=sections, sources=sources, paths=paths
  )
