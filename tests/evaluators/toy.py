"""An evaluator from outside the package: the norm of the parameters."""

from typing import Literal

import jax.numpy as jnp

from vit_jax import registry, trees
from vit_jax.config import schema
from vit_jax.evaluators.kind import EvaluatorKind


class ToyEval(schema.Eval):
  type: Literal["toy"]
  scale: float = schema.key(1.0, "Factor of the norm.")


class Toy:
  def __init__(self, name: str, entry: ToyEval):
    self._name, self._scale = name, entry.scale

  def run(self, state, step):
    leaves = trees.named_leaves(state.eval_params)
    norm = sum(float(jnp.abs(leaf).sum()) for _, leaf in leaves)
    return {f"toy/{self._name}/norm": self._scale * norm}


def build(name, entry, context):
  return Toy(name, entry)


KIND = EvaluatorKind(
  section=ToyEval,
  build="tests.evaluators.toy:build",
  prefix="toy",
  title="Toy",
  protocol=lambda name, entry, config: (
    f"The sum of all magnitudes, times {entry.scale:g}."
  ),
  features=lambda entry: (),
)
registry.EVALUATORS.register("toy", KIND)
