"""The families that followed: what is published of them, and what it costs."""

from typing import Any

from vit_jax.paper import cost, families
from vit_jax.paper.datasets import DATASETS
from vit_jax.report.formatting import MISSING, quantity
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
_NOTES = (
  "Parameters are in millions, GMACs 10^9 multiply-adds of a forward pass."
  " ExaFLOPs are of the row's phase alone, three forward passes an image,"
  " without teachers.",
)


def build() -> dict[str, Any]:
  """The table as data: `table`, `title` and `rows`, as of other tables."""
  return {
    "table": "families",
    "title": _TITLE,
    "rows": [_row(result) for result in families.RESULTS],
  }


def lay_out(document: dict[str, Any]) -> Sheet:
  """The table in words."""
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
        ),
      )
    )
    configs.append((row["row"], row["config"]))
  return Sheet(
    number=None,
    title=document["title"],
    heads=_HEADS,
    lines=tuple(lines),
    configs=tuple(configs),
    notes=_NOTES,
  )


def _row(result: families.Result) -> dict[str, Any]:
  model = result.model
  images = DATASETS["imagenet2012"].num_examples["train"]
  paper = {
    "imagenet": result.accuracy,
    "params": result.params,
    "gmacs": result.gmacs,
    "epochs": result.epochs,
  }
  return {
    "row": result.row,
    "paper": {key: x for key, x in paper.items() if x is not None},
    "computed": {
      "params": cost.num_params(model),
      "gmacs": cost.forward_flops(model, num_classes=1000) / 2e9,
      "exaflops": cost.training_exaflops(model, images, result.epochs),
    },
    "measured": None,
    "config": result.config,
  }


def _shown(value: float | None) -> str:
  return MISSING if value is None else f"{value:g}"
