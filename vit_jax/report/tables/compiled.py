"""Costs of the paper's runs, from train steps compiled ahead of time.

`benchmarks/paper_compiles.py` writes the files, one per accelerator;
docs/compile.md explains their figures.
"""

import dataclasses
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from vit_jax import paper
from vit_jax.report.tables.sheet import Line, Sheet


@dataclasses.dataclass(frozen=True)
class Accelerator:
  """An accelerator for which the tables' steps were compiled.

  Attributes:
    word: Name of one device in column heads, such as 'chip'.
    day: Sentence that defines a day of it.
    work: Key, head and format of the column that only its steps have.
  """

  word: str
  day: str
  work: tuple[str, tuple[str, str]]


ACCELERATORS = {
  "v5e": Accelerator(
    word="chip",
    day=(
      "A chip-day is a day of one chip of TPU v5e, by the compiler's estimate"
      " of a step."
    ),
    work=("cycles_m", ("cycles", "{:.1f} M")),
  ),
  "h100": Accelerator(
    word="GPU",
    day=(
      "A GPU-day is a day of one H100 (SXM), by a bound on the time of a step:"
      " all kernels as fast as memory and products allow, which no real one is."
    ),
    work=("moved_gib", ("moved by a GPU", "{:,.1f} GiB")),
  ),
}


def _columns(found: Accelerator) -> tuple[dict[str, tuple[str, str]], ...]:
  """Returns columns of totals, runs and steps: key -> (head, format).

  Keys are the same for all accelerators.
  """
  word = found.word
  totals = {
    "pretrainings": ("pre-trainings", "{}"),
    "pretraining_chip_days": (f"{word}-days", "{:,.1f}"),
    "finetunings": ("fine-tunings", "{}"),
    "finetuning_chip_days": (f"{word}-days", "{:,.1f}"),
  }
  runs = {
    "steps": ("steps", "{:,}"),
    "chips": (f"{word}s", "{}"),
    "hours": ("hours", "{:,.2f}"),
    "chip_days": (f"{word}-days", "{:,.2f}"),
    "for": ("for", "{}"),
  }
  steps = {
    "chips": (f"{word}s", "{}"),
    "images_per_chip": (f"images a {word}", "{:g}"),
    "parameters_m": ("parameters", "{:.1f} M"),
    "memory_gib": (f"memory of a {word}", "{:.2f} GiB"),
    "model_tflops": ("model TFLOPs", "{:,.1f}"),
    found.work[0]: found.work[1],
    "step_ms": ("step", "{:.1f} ms"),
    "images_per_second": ("images/s", "{:,.0f}"),
  }
  return totals, runs, steps


def read(accelerator: str) -> dict[str, Any]:
  """Reads `versions`, `steps`, `runs` and `totals` from the packaged file.

  Args:
    accelerator: Key of `ACCELERATORS`.
  """
  folder = pathlib.Path(paper.__file__).parent
  return json.loads((folder / f"compiled_steps_{accelerator}.json").read_text())


def lay_out(costs: Mapping[str, Any], accelerator: str) -> list[Sheet]:
  """Returns the tables of totals, of whole runs and of steps, as text."""
  found = ACCELERATORS[accelerator]
  totals, run, step = _columns(found)
  versions = ", ".join(f"{k} {v}" for k, v in costs["versions"].items())
  runs = [one | {"for": "; ".join(one["for"])} for one in costs["runs"]]
  return [
    _sheet(
      "Totals of each table, at one learning rate and one seed",
      ("table", totals),
      costs["totals"],
      f"{found.day} Evaluations and saves are left out. A run that several"
      " places of a table share is counted once.",
    ),
    _sheet("Runs", ("config", run), runs),
    _sheet("Train steps", ("step", step), costs["steps"], f"By {versions}."),
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
  """Formats a value; null means that the step does not fit on a device."""
  return "does not fit" if value is None else form.format(value)
