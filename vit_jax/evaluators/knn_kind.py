"""Declaration of the `knn` evaluator."""

from vit_jax.config import schema
from vit_jax.config.evaluator_declarations import Column
from vit_jax.evaluators import entry_checks
from vit_jax.evaluators.kind import EvaluatorKind


def _build(name, entry, context):
  from vit_jax.evaluators import knn

  return knn.build(name, entry, context)


def _check(name: str, entry: schema.KnnEval, config: schema.Config) -> None:
  key = f"config.evals.{name}.neighbors"
  entry_checks.check_different(key, entry.neighbors, "(10, 20, 100, 200)")
  entry_checks.check_features(name, entry, config)


def _protocol(name: str, entry: schema.KnnEval, config: schema.Config) -> str:
  return (
    "The k most similar images of the whole training split vote on the class of"
    " each test image; similar is a large cosine of"
    f" {entry.representation} features. A vote weighs"
    f" exp(cosine / {entry.temperature:g})."
  )


KIND = EvaluatorKind(
  section=schema.KnnEval,
  build=_build,
  prefix="knn",
  title="k-nearest-neighbour accuracy, %",
  protocol=_protocol,
  features=lambda entry: (entry.representation,),
  check=_check,
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
