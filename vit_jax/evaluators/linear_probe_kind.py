"""Declaration of the `linear_probe` evaluator."""

from vit_jax.config import schema
from vit_jax.config.evaluator_declarations import Column
from vit_jax.evaluators import entry_checks
from vit_jax.evaluators.kind import EvaluatorKind


def _protocol(
  name: str, entry: schema.LinearProbeEval, config: schema.Config
) -> str:
  fitted = (
    "A multinomial logistic regression is fitted to the frozen"
    f" {entry.representation} features of the whole training split,"
    " standardised, and tested on the whole test split."
  )
  if len(entry.l2_sweep) == 1:
    return f"{fitted} Its l2 is {entry.l2_sweep[0]:g}, fixed beforehand."
  return (
    f"{fitted} Its l2 is the most accurate of"
    f" {entry_checks.listed(entry.l2_sweep)} on {100 * entry.held_out:g}% of"
    " each class of the training split, held out of the fit that is compared;"
    " the test split has no say in it."
  )


KIND = EvaluatorKind(
  section=schema.LinearProbeEval,
  build="vit_jax.evaluators.linear_probe:build",
  prefix="linear_probe",
  title="Linear probe",
  protocol=_protocol,
  features=lambda entry: (entry.representation,),
  check=entry_checks.features("l2_sweep", "(1e-4, 1e-3, 1e-2)"),
  columns=lambda entry: (
    Column(
      "top1",
      "top-1, %",
      "percent",
      better="higher",
      panel="Linear-probe accuracy",
    ),
    Column("l2", "l2"),
  ),
)
