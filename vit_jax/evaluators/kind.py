"""The declaration of an evaluator, which does not require jax."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from vit_jax.config import schema
from vit_jax.config.evaluator_declarations import Column


@dataclasses.dataclass(frozen=True)
class EvaluatorKind:
  """One kind of evaluator, an entry of `registry.EVALUATORS`.

  Attributes:
    section: Class of an entry of `config.evals` of this type.
    build: "module:function" that builds the evaluator `config.evals.<name>`
      from (name, entry, context) and opens its data. That module may import
      jax; the module of this record must not.
    prefix: First part of its metrics' names, `<prefix>/<row>/<metric>`.
    title: Heading of its section of a report.
    protocol: Maps (name, entry, config) to sentences on the measurement.
    features: Outputs of the objective that an entry reads.
    check: Raises UserError for a (name, entry, config) that cannot run, as far
      as possible without data.
    columns: Metrics of an entry in the order of a report; other metrics are
      shown as recorded.
    counts: Label of the x axis if columns have counts.
  """

  section: type[schema.Eval]
  build: str
  prefix: str
  title: str
  protocol: Callable[[str, Any, schema.Config], str]
  features: Callable[[Any], tuple[str, ...]]
  check: Callable[[str, Any, schema.Config], None] = lambda *_: None
  columns: Callable[[Any], Sequence[Column]] = lambda entry: ()
  counts: str = ""
