"""Self-distillation without labels, DINO: Caron et al., arXiv 2104.14294.

A student predicts, from any crop of an image, the teacher's output for another
crop; the teacher is an average of the student over the updates. The parameters
of the student's head are under `dino_head`, next to those of the network; the
teacher (network and head) and the centre are in the objective's state.
"""

import functools
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt8

from vit_jax.config import schema
from vit_jax.data.facts import DataFacts
from vit_jax.models import build as models_build
from vit_jax.models import features
from vit_jax.objectives import contract
from vit_jax.objectives.dino import head as head_lib
from vit_jax.objectives.dino import health, views
from vit_jax.objectives.dino import prototypes as prototypes_lib
from vit_jax.objectives.dino import teacher as teacher_lib

_HEAD = "dino_head"


def dino(
  config: schema.Config, facts: DataFacts, total_steps: int
) -> contract.Objective:
  """Builds self-distillation of the network of a config.

  Each resolution is one forward pass: the global crops of all images, then the
  local ones.

  Args:
    config: The experiment.
    facts: Facts of the training data.
    total_steps: Length of the run in updates.

  Raises:
    UserError: A scalar of the config changes per epoch, and the number of
      examples is not known.
  """
  settings = config.objective
  network = models_build.create(config.model, num_classes=None)
  head = head_lib.Head(
    settings.prototypes,
    settings.hidden_width,
    settings.bottleneck,
    settings.unit_prototypes,
    config.model.dtype,
  )
  schedules = teacher_lib.schedules(config, facts, total_steps)
  global_names, local_names = (
    views.names(config, kind) for kind in (views.GLOBAL, views.LOCAL)
  )

  def init(rng: Key[Array, ""]) -> tuple[contract.Params, contract.State]:
    network_rng, head_rng = jax.random.split(rng)
    side = views.side(config, views.GLOBAL)
    images = jnp.zeros((1, side, side, 3), jnp.uint8)
    found, params = network.init_with_output(network_rng, images)
    beside = head.init(head_rng, found)["params"]
    params = {**params["params"], _HEAD: beside}
    center = jnp.zeros(settings.prototypes, jnp.float32)
    return params, teacher_lib.keep_copy({"center": center}, params)

  def loss(
    params: contract.Params,
    constants: contract.Params,
    objective_state: contract.State,
    batch: contract.Batch,
    rngs: contract.Rngs,
    step: Int[Array, ""] | int,
  ) -> tuple[Float[Array, ""], tuple[contract.Aux, contract.Metrics]]:
    del constants
    apply = functools.partial(_features, network)
    large = views.joined(batch, global_names)
    dropout = rngs("dropout")
    seen = apply(params, large, jax.random.fold_in(dropout, 0))
    if local_names:
      small = views.joined(batch, local_names)
      more = apply(params, small, jax.random.fold_in(dropout, 1))
      seen = jnp.concatenate([seen, more], axis=1)
    teacher_params = jax.lax.stop_gradient(objective_state["teacher"])
    taught = apply(teacher_params, large)

    student, student_prototypes = head.apply({"params": params[_HEAD]}, seen)
    teacher, teacher_prototypes = head.apply(
      {"params": teacher_params[_HEAD]}, taught
    )
    given = teacher, teacher_prototypes, schedules.temperature(step)
    if settings.centering == "mean":
      probabilities = prototypes_lib.centred(*given, objective_state["center"])
    else:
      probabilities = prototypes_lib.balanced(*given)
    found = prototypes_lib.compare(
      student, student_prototypes, settings.student_temperature, probabilities
    )
    others = 1 - jnp.eye(*found.cross_entropy.shape[1:])
    by_pair = found.cross_entropy.mean(axis=0)
    value = jnp.sum(others * by_pair) / jnp.sum(others)
    # The mean of the teacher's similarities is the similarity of its mean
    # direction.
    mean = teacher.astype(jnp.float32).mean(axis=(0, 1))
    center = jnp.matmul(teacher_prototypes, mean, precision="highest")
    is_centred = settings.centering == "mean"
    metrics = {
      "loss": value,
      "feature_rank": health.rank(taught),
      **health.metrics(
        value,
        found.entropy.mean(),
        found.used,
        objective_state["center"] if is_centred else None,
      ),
    }
    return value, ({"center": center}, metrics)

  def after_update(
    objective_state: contract.State,
    params: contract.Params,
    aux: contract.Aux,
    step: Int[Array, ""] | int,
  ) -> contract.State:
    follow = teacher_lib.follow
    teacher, center = (objective_state[name] for name in ("teacher", "center"))
    return {
      "teacher": follow(teacher, params, schedules.momentum(step)),
      "center": follow(center, aux["center"], settings.center_momentum),
    }

  def outputs(params: contract.Params, batch: contract.Batch) -> dict[str, Any]:
    return features.features(network, params, batch["image"], ("pre_logits",))

  return contract.Objective(
    init=init,
    loss=loss,
    outputs=outputs,
    after_update=after_update,
    after_load=teacher_lib.keep_copy,
  )


def _features(
  network: nn.Module,
  params: contract.Params,
  crops: UInt8[Array | np.ndarray, "b k s s c"],
  dropout: Key[Array, ""] | None = None,
) -> Float[Array, "b k d"]:
  """Computes features of each crop; without a key, dropout is off."""
  found = network.apply(
    {"params": params},
    crops.reshape(-1, *crops.shape[2:]),
    train=dropout is not None,
    rngs={} if dropout is None else {"dropout": dropout},
  )
  return found.reshape(*crops.shape[:2], -1)
