"""An objective of its own: agree with a teacher on another view of an image.

The student sees one of two views, the teacher, a running average of the
student, the other; the student's features shall point where the teacher's do,
and shall tell what a frozen random network says of the student's view. That is
BYOL without its refinements, with something to hold on to.
"""

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.data.facts import DataFacts
from vit_jax.errors import UserError
from vit_jax.models import build as models_build
from vit_jax.models import features
from vit_jax.objectives import contract
from vit_jax.objectives.kind import ObjectiveKind
from vit_jax.paper import cost

VIEW = "pair"


class Section(schema.Objective):
  """Keys of `config.objective` where its name is 'two_views'."""

  name: Literal["two_views"] = "two_views"
  momentum: schema.Fraction = schema.key(0.9, "Of the teacher, per update.")
  frozen_seed: int = schema.key(7, "Seed of the frozen network.")


def check(config: schema.Config) -> None:
  """Raises UserError unless the batch holds pairs of views."""
  count = config.train.views[VIEW].count
  if count != 2:
    raise UserError(
      f'config.train.views.{VIEW}.count = {count}; objective "two_views"'
      " compares 2 views of an image."
    )


def cosine(
  x: Float[Array, "b d"], y: Float[Array, "b d"]
) -> Float[Array, " b"]:
  """Cosine of the angle between the rows."""
  norms = jnp.linalg.norm(x, axis=1) * jnp.linalg.norm(y, axis=1)
  return jnp.sum(x * y, axis=1) / jnp.maximum(norms, 1e-6)


def build(
  config: schema.Config, facts: DataFacts, total_steps: int
) -> contract.Objective:
  """The objective of an experiment."""
  del facts, total_steps
  network = models_build.create(config.model, num_classes=None)
  size = config.model.image_size
  images = jnp.zeros((1, size, size, 3), jnp.uint8)
  seed = config.objective.frozen_seed
  frozen = jax.jit(network.init)(jax.random.key(seed), images)["params"]

  def init(rng):
    params = network.init(rng, images)["params"]
    return params, after_load({}, params)

  def after_load(objective_state, params):
    del objective_state
    return {"teacher": jax.tree.map(jnp.copy, params)}

  def loss(params, constants, objective_state, batch, rngs, step):
    del rngs, step
    student_view, teacher_view = batch[VIEW][:, 0], batch[VIEW][:, 1]
    student = network.apply({"params": params}, student_view, train=True)
    teacher = network.apply(
      {"params": objective_state["teacher"]}, teacher_view
    )
    anchor = network.apply({"params": constants}, student_view)
    metrics = {
      "agreement": cosine(student, jax.lax.stop_gradient(teacher)).mean(),
      "anchoring": cosine(student, anchor).mean(),
    }
    metrics["loss"] = 2 - metrics["agreement"] - metrics["anchoring"]
    return metrics["loss"], ({}, metrics)

  def after_update(objective_state, params, aux, step):
    del aux, step
    momentum = config.objective.momentum
    return {
      "teacher": jax.tree.map(
        lambda old, new: momentum * old + (1 - momentum) * new,
        objective_state["teacher"],
        params,
      )
    }

  def outputs(params, batch):
    return features.features(network, params, batch["image"], ("pre_logits",))

  return contract.Objective(
    init=init,
    loss=loss,
    outputs=outputs,
    after_update=after_update,
    after_load=after_load,
    constants=contract.Constants.of(f"random:{seed}", frozen),
  )


KIND = ObjectiveKind(
  section=Section,
  build=build,
  # Student, teacher and anchor.
  forward_flops=lambda config, num_classes: (
    3 * cost.forward_flops(config.model, num_classes=None)
  ),
  describe=lambda config: {
    "objective": "agreement of two views",
    "teacher": f"running average, momentum {config.objective.momentum:g}",
  },
  needs=(VIEW,),
  check=check,
  exported=lambda params, objective_state: objective_state["teacher"],
)
registry.OBJECTIVES.register("two_views", KIND)
