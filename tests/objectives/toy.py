"""A toy of two views: an EMA teacher, a frozen constant and a whole batch.

The student's mean colours of one view shall be the teacher's of the other,
weighed by a frozen array that was "read" from a file.
"""

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from vit_jax.config import schema
from vit_jax.objectives.contract import Constants, Objective
from vit_jax.objectives.kind import ObjectiveKind
from vit_jax.optim import scalars


class Toy(schema.Objective):
  name: Literal["toy"] = schema.key("toy", "Toy.")
  momentum: schema.Scalar = schema.key(0.9, "Of the teacher.")
  weights: float = schema.key(1.0, "Value of the frozen array.")
  whole_batch: bool = schema.key(False, "The loss compares examples.")


def build(config, facts, total_steps):
  momentum = scalars.schedule(
    config.objective.momentum,
    key="config.objective.momentum",
    total_steps=total_steps,
    batch_size=config.train.batch_size,
    num_examples=facts.num_examples,
  )
  frozen = {
    "frozen": {"kernel": np.full((3, 8), config.objective.weights, "f")}
  }

  def embed(params, images):
    colours = images.astype(jnp.float32).mean(axis=(-3, -2)) / 255
    return colours @ params["kernel"]

  def init(rng):
    params = {"kernel": jax.random.normal(rng, (3, 8))}
    return params, after_load({}, params)

  def after_load(state, params):
    return {**state, "teacher": params}

  def loss(params, constants, state, batch, rngs, step):
    del rngs, step
    student = embed(params, batch["local"]).mean(axis=1)
    teacher = embed(state["teacher"], batch["global"]).mean(axis=1)
    weights = constants["frozen"]["kernel"][:1]
    value = (weights * (student - teacher) ** 2).mean()
    return value, ({}, {"loss": value})

  def after_update(state, params, aux, step):
    del aux
    share = 1 - momentum(step)
    teacher = jax.tree.map(
      lambda old, new: old + share * (new - old), state["teacher"], params
    )
    return {"teacher": teacher}

  return Objective(
    init=init,
    loss=loss,
    after_update=after_update,
    after_load=after_load,
    outputs=lambda params, batch: {"pre_logits": embed(params, batch["image"])},
    constants=Constants.of("teacher.npz", frozen),
  )


KIND = ObjectiveKind(
  section=Toy,
  build=build,
  forward_flops=lambda config, num_classes: 2 * 3 * 8 * 3,
  describe=lambda config: {"objective": "toy"},
  needs=("global", "local"),
  decomposes=lambda config: not config.objective.whole_batch,
  exported=lambda params, objective_state: objective_state["teacher"],
)
