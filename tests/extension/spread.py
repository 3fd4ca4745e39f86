"""An evaluator of its own: how far apart the features of images lie."""

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.config.evaluator_declarations import Column
from vit_jax.evaluators import contract
from vit_jax.evaluators.kind import EvaluatorKind


class Section(schema.Eval):
  """Keys of an entry of `config.evals` of the type 'spread'."""

  type: Literal["spread"]
  num_images: schema.PositiveInt = schema.key(64, "Random images looked at.")


class Spread:
  """Mean standard deviation of the coordinates of normalised features.

  It falls to 0 when a network answers every image alike, and is 1 / sqrt(d)
  for d coordinates spread evenly over the sphere.
  """

  def __init__(self, name: str, entry: Section, context: contract.Context):
    size = context.config.model.image_size
    rng = np.random.default_rng(0)
    shape = (entry.num_images, size, size, 3)
    self._images = rng.integers(0, 256, shape).astype(np.uint8)
    self._name = f"spread/{name}/deviation"

    @jax.jit
    def measure(params, images):
      x = context.outputs(params, {"image": images})["pre_logits"]
      x = x / jnp.maximum(jnp.linalg.norm(x, axis=1, keepdims=True), 1e-6)
      return jnp.std(x, axis=0).mean()

    self._measure = measure

  def run(self, state: contract.EvaluatedState, step: int) -> dict[str, float]:
    del step
    return {self._name: float(self._measure(state.eval_params, self._images))}


KIND = EvaluatorKind(
  section=Section,
  build="spread:Spread",
  prefix="spread",
  title="Spread of features",
  protocol=lambda name, entry, config: (
    "Standard deviation of normalised features, the mean over coordinates, of"
    f" {entry.num_images} random images."
  ),
  features=lambda entry: ("pre_logits",),
  columns=lambda entry: (
    Column(
      "deviation", "Deviation", better="higher", panel="Spread of features"
    ),
  ),
)
registry.EVALUATORS.register("spread", KIND)
