"""Declaration of `reconstruction`: the training loss of hidden patches."""

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.config.evaluator_declarations import Column
from vit_jax.errors import UserError
from vit_jax.evaluators import entry_checks
from vit_jax.evaluators.kind import EvaluatorKind


def _check(
  name: str, entry: schema.ReconstructionEval, config: schema.Config
) -> None:
  key, objective = f"config.evals.{name}", config.objective.name
  if not registry.OBJECTIVES.get(objective).beside:
    raise UserError(
      f'{key} is of type "reconstruction", but objective "{objective}" has no'
      ' decoder that draws images; "mae" has.'
    )
  entry_checks.check_split(name, entry, config)


def _protocol(
  name: str, entry: schema.ReconstructionEval, config: schema.Config
) -> str:
  return (
    f"{name}: the training loss on all images of split {entry.split!r} of"
    f" {entry.dataset or config.train.dataset}, with the same patches hidden at"
    " every step."
  )


KIND = EvaluatorKind(
  section=schema.ReconstructionEval,
  build="vit_jax.evaluators.reconstruction:build",
  prefix="reconstruction",
  title="Reconstruction",
  protocol=_protocol,
  features=lambda entry: ("reconstruction",),
  check=_check,
  columns=lambda entry: (
    Column("loss", "loss", better="lower", panel="Loss of hidden patches"),
    Column("num_examples", "images"),
  ),
)
