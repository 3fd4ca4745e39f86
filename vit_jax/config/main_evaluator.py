"""The evaluator that speaks for a run, where one of several must."""

from vit_jax.config import schema


def find(config: schema.Config) -> str | None:
  """Its name: `test` if it classifies, else the first that does, or None."""
  names = [
    name
    for name, entry in config.evals.items()
    if isinstance(entry, schema.ClassificationEval)
  ]
  return "test" if "test" in names else next(iter(names), None)
