"""The declaration of an evaluator: all that is known of it without jax."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from vit_jax.config import schema
from vit_jax.config.evaluator_declarations import Column


@dataclasses.dataclass(frozen=True)
class EvaluatorKind:
  """One kind of evaluator, as `registry.EVALUATORS` holds it.

  Attributes:
    section: Class of an entry of `config.evals` of this type.
    build: "module:function" that makes the evaluator `config.evals.<name>`
      from (name, entry, context) and opens its data. The module may import
      jax; this record's own must not.
    prefix: First part of its metrics, `<prefix>/<row>/<metric>`.
    title: Heading of its part of a report.
    protocol: Sentences on how (name, entry, config) measures.
    features: Outputs of the objective that an entry reads.
    check: Raises UserError for a (name, entry, config) that cannot run, as far
      as that needs no data.
    columns: The metrics of an entry in the order of a report; those it leaves
      out are shown as recorded.
    counts: Label of the x axis where columns have counts.
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
