"""Declarations of a config's evaluators, written next to their metrics.

A report reads them to draw and explain evaluators of any kind, including those
from outside the package.
"""

import dataclasses
from typing import Any, Literal

from vit_jax import registry
from vit_jax.config import schema

FILE = "evaluators.json"  # In a workdir.


@dataclasses.dataclass(frozen=True)
class Column:
  """A metric as shown in reports.

  Attributes:
    metric: Last part of `<prefix>/<row>/<metric>`; a metric of this name with
      `_std` is its standard deviation.
    title: Heading of its column.
    unit: Unit in which it is shown; metrics in percent are recorded as
      fractions.
    decimals: Digits after the decimal point of percentages.
    better: Direction in which values are better, if there is one.
    count: Number on the x axis of a figure over counts, such as shots.
    variant: Words in parentheses after the row's name, if one row has the same
      column several times.
    panel: Title of the curve over training; curves with the same title share a
      panel, and '' draws none.
  """

  metric: str
  title: str
  unit: Literal["percent", "number"] = "number"
  decimals: int = 2
  better: Literal["higher", "lower", ""] = ""
  count: int | None = None
  variant: str = ""
  panel: str = ""


def declarations(config: schema.Config) -> dict[str, dict[str, Any]]:
  """JSON of each entry of `config.evals`: its prefix, protocol and columns."""
  found = {}
  for name, entry in config.evals.items():
    kind = registry.EVALUATORS.get(entry.type)
    found[name] = {
      "prefix": kind.prefix,
      "title": kind.title,
      "protocol": kind.protocol(name, entry, config) + _data(entry),
      "columns": [dataclasses.asdict(one) for one in kind.columns(entry)],
      "counts": kind.counts,
    }
  return found


def _data(entry: schema.Eval) -> str:
  """A sentence on the splits that the names of datasets stand for, if any."""
  said = []
  for name, data in getattr(entry, "datasets", {}).items():
    if isinstance(data, schema.FewshotDataset):
      split, more = data.test_split, f", learned from {data.train_split!r}"
    elif isinstance(data, schema.ZeroShotDataset | schema.RetrievalDataset):
      split, more = data.split, ""
    else:
      continue
    said.append(f"{name} is split {split!r} of {data.dataset}{more}")
  return f" Data: {'; '.join(said)}." if said else ""


def prefixes(config: schema.Config) -> tuple[str, ...]:
  """Prefixes of the names of all metrics of the evaluators."""
  kinds = (registry.EVALUATORS.get(one.type) for one in config.evals.values())
  return tuple(dict.fromkeys(f"{kind.prefix}/" for kind in kinds))
