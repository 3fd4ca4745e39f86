"""The families after ViT: published networks and what they cost.

`benchmarks/tpu_cycles_families.py` writes the steps that were compiled for
TPUs, `benchmarks/family_compiles.py` those for GPUs; docs/compile.md explains
such figures.
"""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

from vit_jax import paper as paper_room
from vit_jax.paper import cost, families
from vit_jax.paper.datasets import DATASETS
from vit_jax.report.formatting import MISSING, quantity
from vit_jax.report.tables.compiled import ACCELERATORS
from vit_jax.report.tables.sheet import Line, Sheet

_TITLE = "The families after ViT on ImageNet-1k"
_HEADS = (
  "",
  "top-1",
  "parameters",
  "computed",
  "GMACs",
  "computed",
  "epochs",
  "exaFLOPs",
)
_NOTE = (
  "Parameters are in millions, GMACs 10^9 multiply-adds of a forward pass."
  " ExaFLOPs are of the row's phase alone, three forward passes an image,"
  " without teachers. {day} Steps are of 64 images a {word} in bfloat16, or as"
  " many as fit, and days are also of the phase alone."
)
_OURS = "ours"
_SECONDS_A_DAY = 86_400


def build(accelerator: str) -> dict[str, Any]:
  """Builds the table as data: `table`, `title` and `rows`, like others.

  Args:
    accelerator: Key of `ACCELERATORS`.
  """
  folder = pathlib.Path(paper_room.__file__).parent
  file = folder / f"compiled_families_{accelerator}.json"
  steps = {
    (step["model"], step["image_size"]): step
    for step in json.loads(file.read_text())
    if step["step"] == _OURS
  }
  return {
    "table": "families",
    "title": _TITLE,
    "rows": [_row(result, steps) for result in families.RESULTS],
  }


def lay_out(document: dict[str, Any], accelerator: str) -> Sheet:
  """Lays out the table as text."""
  found = ACCELERATORS[accelerator]
  lines, configs = [], []
  for row in document["rows"]:
    paper, computed = row["paper"], row["computed"]
    lines.append(
      Line(
        row["row"],
        (
          f"{paper['imagenet']:.1f}",
          _shown(paper.get("params")),
          f"{computed['params'] / 1e6:.1f}",
          _shown(paper.get("gmacs")),
          f"{computed['gmacs']:.1f}",
          str(paper["epochs"]),
          quantity(computed["exaflops"], 4),
          _shown(computed.get("chip_days")),
        ),
      )
    )
    configs.append((row["row"], row["config"]))
  return Sheet(
    number=None,
    title=document["title"],
    heads=(*_HEADS, f"{found.word}-days"),
    lines=tuple(lines),
    configs=tuple(configs),
    notes=(_NOTE.format(day=found.day, word=found.word),),
  )


def _row(
  result: families.Result,
  steps: Mapping[tuple[str, int], Mapping[str, Any]],
) -> dict[str, Any]:
  model = result.model
  images = DATASETS["imagenet2012"].num_examples["train"]
  paper = {
    "imagenet": result.accuracy,
    "params": result.params,
    "gmacs": result.gmacs,
    "epochs": result.epochs,
  }
  computed = {
    "params": cost.num_params(model),
    "gmacs": cost.forward_flops(model, num_classes=1000) / 2e9,
    "exaflops": cost.training_exaflops(model, images, result.epochs),
  }
  step = steps.get((result.name, result.image_size))
  if step is not None:
    seconds = step["step_seconds"] * step["chips"] / step["batch_size"]
    days = seconds * images * result.epochs / _SECONDS_A_DAY
    computed["chip_days"] = round(days, 1)
  return {
    "row": result.row,
    "paper": {key: x for key, x in paper.items() if x is not None},
    "computed": computed,
    "measured": None,
    "config": result.config,
  }


def _shown(value: float | None) -> str:
  return MISSING if value is None else f"{value:g}"
