"""The evaluator whose accuracy represents a run."""

from vit_jax.config import schema


def find(config: schema.Config) -> str | None:
  """Name of the classification evaluator `test`, else of the first, or None."""
  names = [
    name
    for name, entry in config.evals.items()
    if isinstance(entry, schema.ClassificationEval)
  ]
  return "test" if "test" in names else next(iter(names), None)
