"""Tables and figures of the paper as the contents of one file."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from vit_jax.errors import UserError
from vit_jax.paper.results import TABLES
from vit_jax.report.figures.svg import Figure
from vit_jax.report.tables import (
  compiled,
  document,
  families,
  formats,
  measuring,
  page,
  scatters,
  sheet,
)
from vit_jax.report.tables import runs as workdirs
from vit_jax.report.tables.measuring import Measured


def render(
  number: int | None,
  kind: str,
  *,
  runs: str | None = None,
  pretrained: Mapping[str, str] | None = None,
) -> str:
  """Renders tables in one of the formats.

  Args:
    number: Number of the table; None for all, or for their titles in 'text'
      without runs.
    kind: Name of a format.
    runs: Directory with workdirs; None for no measurements.
    pretrained: Pre-training data ('i1k', 'i21k' or 'jft') of files that runs
      started from.

  Raises:
    UserError: There is no run in `runs`.
  """
  if number is None and kind == "text" and runs is None:
    return _titles()
  numbers = list(TABLES) if number is None else [number]
  found, unread = _found(runs, pretrained)
  measured = {k: measuring.measure(TABLES[k], found, unread) for k in numbers}
  documents = [document.build(TABLES[k], measured[k]) for k in numbers]
  if kind == "json":
    value: Any = {"tables": documents} if number is None else documents[0]
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
  sheets = [sheet.lay_out(one) for one in documents]
  if kind == "html":
    sections = [
      page.of_table(one, *_figures_of(k, measured[k], found))
      for k, one in zip(numbers, sheets, strict=True)
    ]
    return page.render(sections, with_runs=runs is not None)
  return "\n".join(formats.FORMATS[kind](one) for one in sheets)


def render_costs(kind: str, accelerator: str = "v5e") -> str:
  """Renders the costs of the paper's runs in one of the formats.

  Args:
    kind: Name of a format.
    accelerator: Key of `compiled.ACCELERATORS`.
  """
  costs = compiled.read(accelerator)
  if kind == "json":
    return json.dumps(costs, indent=2, ensure_ascii=False) + "\n"
  sheets = compiled.lay_out(costs, accelerator)
  if kind == "html":
    return page.render([page.of_table(one) for one in sheets], with_runs=False)
  return "\n".join(formats.FORMATS[kind](one) for one in sheets)


def render_families(kind: str, accelerator: str = "v5e") -> str:
  """Renders the table of the families after ViT in one of the formats.

  Args:
    kind: Name of a format.
    accelerator: Key of `compiled.ACCELERATORS` used for the costs of runs.
  """
  found = families.build(accelerator)
  if kind == "json":
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"
  one = families.lay_out(found, accelerator)
  if kind == "html":
    return page.render([page.of_table(one)], with_runs=False)
  return formats.FORMATS[kind](one)


def draw(
  figure: int,
  kind: str,
  *,
  runs: str | None,
  pretrained: Mapping[str, str],
  metric: str,
) -> tuple[str, list[str]]:
  """Draws figure 3, 4 or 5 as 'svg' or 'html'.

  Args:
    figure: Number of the figure in the paper.
    kind: Name of a format.
    runs: Directory with workdirs; None to draw only the paper's numbers.
    pretrained: As for `render`.
    metric: Metric that figure 4 shows.

  Returns:
    The file, and sentences about omitted runs that it does not contain.

  Raises:
    UserError: There is no run to draw figure 4 from.
  """
  found, remarks = _found(runs, pretrained)
  if figure == 4:
    figures, left_out = scatters.against_examples(found, metric)
    remarks += left_out
    if not figures:
      raise UserError(
        "\n".join(
          [
            "Figure 4 is drawn from runs alone, and none that started from"
            f" nothing has finished with {metric}: give --runs=DIR, or another"
            " --metric.",
            *left_out,
          ]
        )
      )
  else:
    number, make = scatters.OF_TABLES[figure]
    measured = measuring.measure(TABLES[number], found, remarks)
    figures, remarks = make(measured), list(measured.remarks)
  if kind == "html":
    title = f"Figure {figure} of the ViT paper"
    section = page.Section(title, None, tuple(figures), tuple(remarks))
    return page.render([section], with_runs=runs is not None), []
  return page.standalone(figures), remarks


def _found(
  runs: str | None, pretrained: Mapping[str, str] | None
) -> tuple[list[workdirs.Found], list[str]]:
  """Finds runs below a directory; adds sentences about unreadable ones."""
  return ([], []) if runs is None else workdirs.find(runs, pretrained or {})


def _figures_of(
  number: int, measured: Measured, found: Sequence[workdirs.Found]
) -> tuple[list[Figure], list[str]]:
  """Draws the figures below a table; adds sentences about omitted runs."""
  figures, remarks = [], []
  for table, make in scatters.OF_TABLES.values():
    if table == number:
      figures += make(measured)
  if number == 5:
    more, remarks = scatters.against_examples(found)
    figures += more
  return figures, remarks


def _titles() -> str:
  lines = [f"{number}  {table.title}" for number, table in TABLES.items()]
  return "\n".join([*lines, "", "python -m vit_jax.tables N shows one.", ""])
