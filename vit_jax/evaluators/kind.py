"""The declaration of an evaluator: all that is known of it without jax."""

import dataclasses

from vit_jax.config import schema


@dataclasses.dataclass(frozen=True)
class EvaluatorKind:
  """One kind of evaluator, as `registry.EVALUATORS` holds it.

  Attributes:
    section: Class of an entry of `config.evals` of this type.
  """

  section: type[schema.Eval]
