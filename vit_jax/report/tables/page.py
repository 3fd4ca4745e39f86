"""Tables of the paper as one HTML page that asks the network for nothing."""

import dataclasses
from collections.abc import Sequence

import jinja2
import markupsafe

from vit_jax.report.figures import svg
from vit_jax.report.tables.formats import HOW
from vit_jax.report.tables.sheet import Sheet


@dataclasses.dataclass(frozen=True)
class Figure:
  """A figure below a table."""

  svg: svg.Markup
  caption: str


@dataclasses.dataclass(frozen=True)
class Section:
  """A table and its figures."""

  sheet: Sheet
  figures: tuple[Figure, ...] = ()


def render(sections: Sequence[Section], *, with_runs: bool) -> str:
  """The page.

  Args:
    sections: at least one.
    with_runs: whether runs were looked for.
  """
  environment = jinja2.Environment(
    loader=jinja2.PackageLoader("vit_jax.report"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
  )
  title = "The tables of the ViT paper"
  if len(sections) == 1:
    sheet = sections[0].sheet
    title = f"Table {sheet.number} of the ViT paper"
  return environment.get_template("tables.html").render(
    title=title,
    sections=sections,
    with_runs=with_runs,
    how=_code(HOW),
  )


def _code(text: str) -> markupsafe.Markup:
  """What stands between backquotes as code."""
  parts = []
  for index, part in enumerate(text.split("`")):
    part = markupsafe.escape(part)
    parts.append(f"<code>{part}</code>" if index % 2 else str(part))
  return markupsafe.Markup("".join(parts))
