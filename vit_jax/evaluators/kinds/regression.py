"""Declaration of `regression`: errors of the numbers that a model predicts."""

from vit_jax.config import schema
from vit_jax.config.evaluator_declarations import Column
from vit_jax.errors import UserError
from vit_jax.evaluators import entry_checks
from vit_jax.evaluators.kind import EvaluatorKind


def _check(
  name: str, entry: schema.RegressionEval, config: schema.Config
) -> None:
  if not config.objective.predicts_numbers:
    raise UserError(
      f'config.evals.{name} is of type "regression", but'
      f" {entry_checks.objective(config)} predicts no numbers; set"
      " config.objective.loss = 'mse'."
    )
  entry_checks.check_split(name, entry, config)


KIND = EvaluatorKind(
  section=schema.RegressionEval,
  build="vit_jax.evaluators.regression:build",
  prefix="eval",
  title="Regression",
  protocol=lambda name, entry, config: (
    f"{name}: the numbers that the model's own head predicts of every image of"
    f" split {entry.split!r} of {entry.dataset or config.train.dataset}, in"
    " their own units. R² is the share of their variance that is explained: 0"
    " of always answering their mean, 1 of no error."
  ),
  features=lambda entry: ("logits",),
  check=_check,
  columns=lambda entry: (
    Column("rmse", "RMSE", better="lower", panel="Root mean squared error"),
    Column("mae", "MAE", better="lower", panel="Mean absolute error"),
    Column("r2", "R²", better="higher", panel="R²"),
    Column("num_examples", "images"),
  ),
)
