"""A table of the paper with our costs and measurements, as one value.

`--json` prints it, and the other formats are built from it alone.
"""

from typing import Any

from vit_jax.paper.contradictions import CONTRADICTIONS
from vit_jax.paper.table import Table
from vit_jax.report.tables import costs, recipes
from vit_jax.report.tables.measuring import Measured


def build(table: Table, measured: Measured | None = None) -> dict[str, Any]:
  """Builds the table in the form of its JSON.

  Args:
    table: One of `paper.results`.
    measured: Its measurements; None if no runs were searched.

  Returns:
    `table`, `title`, `source`, `columns` (key -> title), `rows`, `notes`,
    `contradictions` and `remarks` (on runs). A row has its name as `row`,
    `paper` (column -> number or word) and `paper_std`; `computed`; `measured`,
    `measured_std`, `difference` (measured - paper) and `runs`, or None if no
    run was found; `config`, and `finetuning` (column -> config), values of
    `--config`; `pretraining` (column -> config), if each cell has its own;
    `inferred`, whether the row's pre-training is missing from Table 3.
  """
  measured = measured or Measured({})
  return {
    "table": table.number,
    "title": table.title,
    "source": table.source,
    "columns": {key: column.title for key, column in table.columns.items()},
    "rows": [_row(table, index, measured) for index in range(len(table.rows))],
    "notes": list(table.notes),
    "contradictions": [
      one.sentence
      for one in CONTRADICTIONS.values()
      if table.number in one.tables
    ],
    "remarks": list(measured.remarks),
  }


def _row(table: Table, index: int, measured: Measured) -> dict[str, Any]:
  row = table.rows[index]
  found = {
    key: measured.cells[index, key]
    for key in table.columns
    if (index, key) in measured.cells
  }
  paper = {
    key: row.cells[key].value for key in table.columns if key in row.cells
  }
  means = {key: one.mean for key, one in found.items()}
  places = [
    key
    for key, column in table.columns.items()
    if column.is_accuracy and key in row.cells
  ]
  pretraining, finetuning = (
    {key: config for key in places if (config := find(table, row, key))}
    for find in (recipes.pretraining, recipes.finetuning)
  )
  return {
    "row": row.name,
    "paper": paper,
    "paper_std": {
      key: cell.std for key, cell in row.cells.items() if cell.std is not None
    },
    "computed": costs.computed(table, row),
    "measured": means or None,
    "measured_std": {key: one.std for key, one in found.items()} or None,
    "difference": {
      key: mean - paper[key] for key, mean in means.items() if key in paper
    }
    or None,
    "runs": {key: list(one.runs) for key, one in found.items()} or None,
    "config": recipes.main(table, row),
    "finetuning": finetuning,
    "pretraining": pretraining,
    "inferred": recipes.is_inferred(row),
  }
