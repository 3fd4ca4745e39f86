"""k-NN and linear-probe accuracy of a run as one table, datasets by classifier.

The two ways, beside few-shot, to ask what frozen features are worth.
"""

import dataclasses
import re

from vit_jax.report import protocols
from vit_jax.report.run import Run

_METRIC = re.compile(
  r"knn/(?P<knn>.+)/k(?P<k>\d+)|linear_probe/(?P<probe>.+)/top1"
)
_PROBE = "linear probe"


@dataclasses.dataclass(frozen=True)
class Table:
  """Fractions of the test split; a row has no value where none was measured.

  Attributes:
    heads: the classifiers, fewest neighbours first.
    rows: dataset -> its value under each of `heads`.
    protocol: paragraphs on how they were measured.
  """

  heads: tuple[str, ...]
  rows: dict[str, tuple[float | None, ...]]
  protocol: tuple[str, ...]


def table(run: Run) -> Table | None:
  """The last values of a run; None where there are none."""
  found: dict[str, dict[int | None, float]] = {}
  for name, value in run.metrics().items():
    if match := _METRIC.fullmatch(name):
      dataset = match["knn"] or match["probe"]
      count = int(match["k"]) if match["knn"] else None
      found.setdefault(dataset, {})[count] = value
  if not found:
    return None
  counts = {count for values in found.values() for count in values}
  columns: list[int | None] = sorted(k for k in counts if k is not None)
  columns += [None] * (None in counts)
  heads = tuple(_PROBE if k is None else f"k = {k}" for k in columns)
  paragraphs = []
  for kind, write in (
    ("knn", protocols.knn),
    ("linear_probe", protocols.linear_probe),
  ):
    for entry in protocols.entries(run.section("evals"), kind):
      paragraphs.append(" ".join(write(entry)))
  return Table(
    heads,
    {
      name: tuple(values.get(k) for k in columns)
      for name, values in found.items()
    },
    tuple(dict.fromkeys(paragraphs)),
  )
