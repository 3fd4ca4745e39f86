"""Declaration of `classification`: the accuracy of the model's own head."""

from vit_jax.config import schema
from vit_jax.config.evaluator_declarations import Column
from vit_jax.errors import UserError
from vit_jax.evaluators import entry_checks
from vit_jax.evaluators.kind import EvaluatorKind


def _check(
  name: str, entry: schema.ClassificationEval, config: schema.Config
) -> None:
  if config.objective.predicts_numbers:
    raise UserError(
      f'config.evals.{name} is of type "classification", but'
      f" {entry_checks.objective(config)} predicts numbers; set its type to"
      ' "regression".'
    )
  entry_checks.check_split(name, entry, config)


def _protocol(
  name: str, entry: schema.ClassificationEval, config: schema.Config
) -> str:
  sentence = (
    f"{name}: the model's own head on every labelled image of split"
    f" {entry.split!r} of {entry.dataset or config.train.dataset}"
  )
  if entry.label_sets:
    sentence += f", any of the labels of {entry.label_sets} being right"
  return f"{sentence}."


KIND = EvaluatorKind(
  section=schema.ClassificationEval,
  build="vit_jax.evaluators.classification:build",
  prefix="eval",
  title="Classification",
  protocol=_protocol,
  features=lambda entry: ("logits",),
  check=_check,
  columns=lambda entry: (
    Column("top1", "top-1, %", "percent", better="higher", panel="Accuracy"),
    Column("top5", "top-5, %", "percent", better="higher"),
    Column(
      "mean_average_precision",
      "mAP, %",
      "percent",
      better="higher",
      panel="Mean average precision",
    ),
    Column("loss", "loss", better="lower", panel="Loss"),
    Column("num_examples", "images"),
  ),
)
