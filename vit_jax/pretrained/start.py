"""The parameters that a run starts with, from `config.init_from`."""

import dataclasses

from jaxtyping import PyTree

from vit_jax.config import schema
from vit_jax.pretrained import fitting, reading
from vit_jax.weights import surgery
from vit_jax.weights.contract import Weights


@dataclasses.dataclass(frozen=True)
class Start:
  """Parameters that a checkpoint gives to a run.

  Attributes:
    exported: Parameters that the checkpoint is known by, such as a teacher's.
    trained: Those that were trained, where the run goes on with the same
      objective and they differ; None: `exported`.
  """

  exported: surgery.Fitted
  trained: surgery.Fitted | None = None


def find(config: schema.Config, wanted: PyTree) -> Start | None:
  """Reads and fits `init_from`; None if it is not set.

  Args:
    config: The experiment.
    wanted: ShapeDtypeStructs of all its parameters.

  Raises:
    UserError: The checkpoint cannot be read, or does not fit.
  """
  if config.init_from is None:
    return None
  weights = reading.read(config.init_from)

  def fit(weights: Weights) -> surgery.Fitted:
    return fitting.fit(
      wanted,
      weights,
      config.model,
      config.init_without,
      config.allow_change,
      config.init_classes,
      config.init_part,
    )

  exported = fit(weights)
  found = weights.objective
  if not weights.trained or found.name != config.objective.name:
    return Start(exported)
  student = {
    field: {name: weights.trained[name] for name in getattr(weights, field)}
    for field in ("params", "beside")
  }
  return Start(exported, fit(dataclasses.replace(weights, **student)))
