"""The evaluator whose accuracy and whose images represent a run."""

from vit_jax.config import schema


def find(config: schema.Config) -> str | None:
  """Returns the name of the head's evaluator `test`, else of the first.

  None if the config has neither a classification nor a regression evaluator.
  """
  names = [
    name
    for name, entry in config.evals.items()
    if isinstance(entry, schema.ClassificationEval | schema.RegressionEval)
  ]
  return "test" if "test" in names else next(iter(names), None)


def preprocess(config: schema.Config) -> str | None:
  """Returns the host ops of that evaluator, or of another representative one.

  The other is the first that compares images with texts, else the first that
  reconstructs images.
  """
  name = find(config)
  if name is not None:
    return config.evals[name].preprocess
  for kind in (schema.ZeroShotEval, schema.RetrievalEval):
    for entry in config.evals.values():
      if isinstance(entry, kind):
        return next(iter(entry.datasets.values())).preprocess
  for entry in config.evals.values():
    if isinstance(entry, schema.ReconstructionEval):
      return entry.preprocess
  return None
