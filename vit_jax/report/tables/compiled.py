"""Costs of the paper's runs, by train steps compiled ahead of time for TPUs.

`benchmarks/paper_compiles.py` writes the file; docs/compile.md says what its
figures count.
"""

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from vit_jax import paper
from vit_jax.report.tables.sheet import Line, Sheet

_FILE = pathlib.Path(paper.__file__).parent / "compiled_steps.json"
# Key -> head of the column and how a value is written.
_STEPS = {
  "chips": ("chips", "{}"),
  "images_per_chip": ("images a chip", "{:g}"),
  "parameters_m": ("parameters", "{:.1f} M"),
  "memory_gib": ("memory of a chip", "{:.2f} GiB"),
  "model_tflops": ("model TFLOPs", "{:,.1f}"),
  "cycles_m": ("cycles", "{:.1f} M"),
  "step_ms": ("step", "{:.1f} ms"),
  "images_per_second": ("images/s", "{:,.0f}"),
}
_RUNS = {
  "steps": ("steps", "{:,}"),
  "chips": ("chips", "{}"),
  "hours": ("hours", "{:,.2f}"),
  "chip_days": ("chip-days", "{:,.2f}"),
  "for": ("for", "{}"),
}
_TOTALS = {
  "pretrainings": ("pre-trainings", "{}"),
  "pretraining_chip_days": ("chip-days", "{:,.1f}"),
  "finetunings": ("fine-tunings", "{}"),
  "finetuning_chip_days": ("chip-days", "{:,.1f}"),
}


def read() -> dict[str, Any]:
  """Returns `versions`, `steps`, `runs` and `totals` of the packaged file."""
  return json.loads(_FILE.read_text())


def lay_out(costs: Mapping[str, Any]) -> list[Sheet]:
  """Returns the tables of steps, of whole runs and of totals, as words."""
  versions = ", ".join(f"{k} {v}" for k, v in costs["versions"].items())
  runs = [one | {"for": "; ".join(one["for"])} for one in costs["runs"]]
  return [
    _sheet(
      "Totals of each table, at one learning rate and one seed",
      ("table", _TOTALS),
      costs["totals"],
      "A chip-day is a day of one chip of TPU v5e, by the compiler's estimate"
      " of a step, without evaluations and saves. A run that several places of"
      " a table share is counted once.",
    ),
    _sheet("Runs", ("config", _RUNS), runs),
    _sheet("Train steps", ("step", _STEPS), costs["steps"], f"By {versions}."),
  ]


def _sheet(
  title: str,
  columns: tuple[str, Mapping[str, tuple[str, str]]],
  rows: Sequence[Mapping[str, Any]],
  *notes: str,
) -> Sheet:
  first, others = columns
  return Sheet(
    number=None,
    title=title,
    heads=(first, *(head for head, _ in others.values())),
    lines=tuple(
      Line(
        row[first],
        tuple(_cell(form, row[key]) for key, (_, form) in others.items()),
      )
      for row in rows
    ),
    configs=(),
    notes=notes,
  )


def _cell(form: str, value: Any) -> str:
  """A value; null is that of a step that does not fit into a chip."""
  return "does not fit" if value is None else form.format(value)
