"""Tables of the paper as one HTML page that loads nothing remote."""

import dataclasses
import re
from collections.abc import Sequence

import markupsafe

from vit_jax.report import pages
from vit_jax.report.figures import svg
from vit_jax.report.tables.formats import HOW
from vit_jax.report.tables.sheet import Sheet


@dataclasses.dataclass(frozen=True)
class Section:
  """A table with figures below it, or only figures, and remarks on them."""

  title: str
  sheet: Sheet | None = None
  figures: tuple[svg.Figure, ...] = ()
  remarks: tuple[str, ...] = ()


def of_table(
  sheet: Sheet, figures: Sequence[svg.Figure] = (), remarks: Sequence[str] = ()
) -> Section:
  """Builds a section with a table."""
  return Section(sheet.heading, sheet, tuple(figures), tuple(remarks))


def render(sections: Sequence[Section], *, with_runs: bool) -> str:
  """Renders the page.

  Args:
    sections: Sections, at least one.
    with_runs: True if the introduction should mention the search for runs.
  """
  title = "The tables of the ViT paper"
  if len(sections) == 1:
    title = sections[0].title
  return (
    pages.environment()
    .get_template("tables.html")
    .render(
      title=title,
      sections=sections,
      with_runs=with_runs,
      how=_code(HOW),
    )
  )


def standalone(figures: Sequence[svg.Figure]) -> str:
  """Builds an SVG file of figures side by side, with the page's colours."""
  environment = pages.environment()
  style, _, _ = environment.loader.get_source(environment, "style.css")
  parts, at, height = [], 0.0, 0.0
  for figure in figures:
    found = re.match(r'<svg viewBox="0 0 ([\d.]+) ([\d.]+)"', figure.svg)
    wide, high = float(found[1]), float(found[2])
    # When nested, the page's rules for figures would move it.
    inner = str(figure.svg).replace(' role="img"', "", 1).removeprefix("<svg")
    place = f'<svg x="{at:g}" width="{wide:g}" height="{high:g}"'
    parts.append(svg.Markup(place + inner))
    parts.append(svg.element("desc", figure.caption))
    at, height = at + wide + 24, max(height, high)
  return (
    str(
      svg.element(
        "svg",
        svg.element("style", style),
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"-16 -8 {at + 8:g} {height + 16:g}",
        style="background: var(--paper)",
      )
    )
    + "\n"
  )


def _code(text: str) -> markupsafe.Markup:
  """Marks text between backticks as code."""
  parts = []
  for index, part in enumerate(text.split("`")):
    part = markupsafe.escape(part)
    parts.append(f"<code>{part}</code>" if index % 2 else str(part))
  return markupsafe.Markup("".join(parts))
