"""Declaration of `knn`: k nearest neighbours of frozen features."""

from vit_jax.config import schema
from vit_jax.config.evaluator_declarations import Column
from vit_jax.evaluators import entry_checks
from vit_jax.evaluators.kind import EvaluatorKind


def _protocol(name: str, entry: schema.KnnEval, config: schema.Config) -> str:
  return (
    "The k most similar images of the whole training split vote on the class of"
    " each test image; similar is a large cosine of"
    f" {entry.representation} features. A vote weighs"
    f" exp(cosine / {entry.temperature:g})."
  )


KIND = EvaluatorKind(
  section=schema.KnnEval,
  build="vit_jax.evaluators.knn:build",
  prefix="knn",
  title="k-nearest-neighbour accuracy, %",
  protocol=_protocol,
  features=lambda entry: (entry.representation,),
  check=entry_checks.features("neighbors", "(10, 20, 100, 200)"),
  columns=lambda entry: [
    Column(
      f"k{count}",
      f"k = {count}",
      "percent",
      better="higher",
      count=count,
      panel=f"{count}-nearest-neighbour accuracy",
    )
    for count in sorted(entry.neighbors)
  ],
  counts="neighbours",
)
