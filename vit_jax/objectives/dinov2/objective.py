"""DINOv2: Oquab et al., arXiv 2304.07193.

DINO on images, iBOT on patches: the student also predicts for each masked patch
the output of the teacher, which sees the whole crop. KoLeo spreads the features
of a group of images. In addition to the network's parameters there are those of
the heads, `dino_head` and `ibot_head`, and `mask_token`.

The teacher is an average of the student, in the objective's state. If a frozen
teacher is distilled, it is a constant, and the average is kept for export.
"""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, UInt8

from vit_jax.config import schema
from vit_jax.data.facts import DataFacts
from vit_jax.models import build as models_build
from vit_jax.models import features
from vit_jax.objectives import contract, masked_tokens
from vit_jax.objectives.dino import health, views
from vit_jax.objectives.dino import prototypes as prototypes_lib
from vit_jax.objectives.dino import teacher as teacher_lib
from vit_jax.objectives.dinov2 import frozen as frozen_lib
from vit_jax.objectives.dinov2 import masks, spreading
from vit_jax.objectives.dinov2 import plan as plans
from vit_jax.objectives.dinov2.heads import IMAGES, PATCHES, Learner

_TOKEN = "mask_token"


def dinov2(
  config: schema.Config, facts: DataFacts, total_steps: int
) -> contract.Objective:
  """Builds self-distillation of the network of a config.

  Each resolution is one forward pass: the global crops of all images, some of
  them masked, then the local crops.

  Args:
    config: The experiment.
    facts: Facts of the training data.
    total_steps: Length of the run in updates.

  Raises:
    UserError: A scalar of the config changes per epoch, and the number of
      examples is not known; or a frozen teacher cannot be read or does not fit.
  """
  settings = config.objective
  network = models_build.create(config.model, num_classes=None)
  student = master = Learner.of(network, settings, config.model.dtype)
  average, frozen = "teacher", contract.Constants()
  if settings.teacher is not None:
    master, frozen = frozen_lib.read(config)
    average = "average"
  schedules = teacher_lib.schedules(config, facts, total_steps)
  global_names, local_names = (
    views.names(config, kind) for kind in (views.GLOBAL, views.LOCAL)
  )
  plan = plans.of(config)

  def init(rng: Key[Array, ""]) -> tuple[contract.Params, contract.State]:
    network_rng, head_rng, patch_rng = jax.random.split(rng, 3)
    side = views.side(config, views.GLOBAL)
    images = jnp.zeros((1, side, side, 3), jnp.uint8)
    found, variables = network.init_with_output(network_rng, images)
    params = {
      **variables["params"],
      IMAGES: student.head.init(head_rng, found)["params"],
      _TOKEN: jnp.zeros((1, 1, network.width)),
    }
    if settings.separate_patch_head:
      params[PATCHES] = student.patch_head.init(patch_rng, found)["params"]
    center = jnp.zeros(settings.prototypes, jnp.float32)
    state = {"center": center, "patch_center": center.copy()}
    return params, after_load(state, params)

  def after_load(
    objective_state: contract.State, params: contract.Params
  ) -> contract.State:
    return teacher_lib.keep_copy(objective_state, params, average)

  def prepare(batch: contract.Batch, rngs: contract.Rngs) -> contract.Batch:
    num_images = len(batch[global_names[0]])
    return {**batch, "masks": masks.draw(rngs("masks"), plan, num_images)}

  def loss(
    params: contract.Params,
    constants: contract.Params,
    objective_state: contract.State,
    batch: contract.Batch,
    rngs: contract.Rngs,
    step: Int[Array, ""] | int,
  ) -> tuple[Float[Array, ""], tuple[contract.Aux, contract.Metrics]]:
    large, mask = views.joined(batch, global_names), batch["masks"]
    dropout = rngs("dropout")
    seen, patches = _encoded(
      network, params, large, mask, jax.random.fold_in(dropout, 0)
    )
    spread = seen
    if local_names:
      small = views.joined(batch, local_names)
      key = jax.random.fold_in(dropout, 1)
      more, _ = _encoded(network, params, small, None, key, num_read=1)
      seen = jnp.concatenate([seen, more], axis=1)
    teacher = objective_state[average] if master is student else constants
    teacher = jax.lax.stop_gradient(teacher)
    taught, taught_patches = _encoded(master.network, teacher, large)

    temperature = schedules.temperature(step)
    center = objective_state["center"]
    found, mean = _compared(
      settings,
      *student.say_of_images(params, seen),
      *master.say_of_images(teacher, taught),
      temperature,
      center,
    )
    others = 1 - jnp.eye(*found.cross_entropy.shape[1:])
    by_pair = found.cross_entropy.mean(axis=0)
    of_images = jnp.sum(others * by_pair) / jnp.sum(others)

    if settings.patches == "all":
      patches, taught_patches = map(_joined, (patches, taught_patches))
      weights = jnp.full(patches.shape[:2], 1 / mask.shape[2])
    else:
      places, weights = masks.find(mask, plan)
      patches = masks.take(patches, places)
      taught_patches = masks.take(taught_patches, places)
    said, rows = student.say_of_patches(params, patches)
    wanted, teachers = master.say_of_patches(teacher, taught_patches)
    # A token is a pair of one view of each.
    patches_found, patch_mean = _compared(
      settings,
      said.reshape(-1, 1, said.shape[-1]),
      rows,
      wanted.reshape(-1, 1, wanted.shape[-1]),
      teachers,
      temperature,
      objective_state["patch_center"],
      weights.reshape(-1, 1),
    )
    by_patch = patches_found.cross_entropy.reshape(weights.shape)
    num_crops = mask.shape[0] * mask.shape[1]
    of_masked = jnp.sum(weights * by_patch) / num_crops
    koleo = sum(
      spreading.by_group(spread[:, crop], plan.group)
      for crop in range(spread.shape[1])
    )
    value = (
      of_images
      + settings.patch_weight * of_masked
      + settings.koleo_weight * koleo
    )
    is_centred = settings.centering == "mean"
    of_patches: contract.Metrics = {}
    if plan.num_masked or settings.patches == "all":
      counted = (weights > 0).astype(jnp.float32).reshape(-1, 1)
      counted /= jnp.maximum(counted.sum(), 1)
      of_patches = health.metrics(
        jnp.sum(counted * patches_found.cross_entropy[:, :, 0]),
        jnp.sum(counted * patches_found.entropy),
        patches_found.used,
        objective_state["patch_center"] if is_centred else None,
      )
    metrics = {
      **health.metrics(
        of_images,
        found.entropy.mean(),
        found.used,
        objective_state["center"] if is_centred else None,
      ),
      **{f"patch_{name}": number for name, number in of_patches.items()},
      "feature_rank": health.rank(taught),
      "loss": value,
      "image_loss": of_images,
      "patch_loss": of_masked,
      "koleo": koleo,
      "masked_share": mask.mean(),
    }
    return value, ({"center": mean, "patch_center": patch_mean}, metrics)

  def after_update(
    objective_state: contract.State,
    params: contract.Params,
    aux: contract.Aux,
    step: Int[Array, ""] | int,
  ) -> contract.State:
    follow = teacher_lib.follow
    centers = {
      name: follow(objective_state[name], aux[name], settings.center_momentum)
      for name in aux
    }
    momentum = schedules.momentum(step)
    return {
      average: follow(objective_state[average], params, momentum),
      **centers,
    }

  def outputs(params: contract.Params, batch: contract.Batch) -> dict[str, Any]:
    return features.features(network, params, batch["image"], ("pre_logits",))

  return contract.Objective(
    init=init,
    loss=loss,
    outputs=outputs,
    prepare=prepare,
    after_update=after_update,
    after_load=after_load,
    constants=frozen,
  )


def _joined(tokens: Float[Array, "b c n d"]) -> Float[Array, "b m d"]:
  """Concatenates the patches of all crops of each image."""
  return tokens.reshape(len(tokens), -1, tokens.shape[-1])


def _compared(
  settings: schema.DINOv2,
  student: Float[Array, "b v e"],
  rows: Float[Array, "k e"],
  teacher: Float[Array, "b g t"],
  teacher_rows: Float[Array, "k t"],
  temperature: Float[Array, ""],
  center: Float[Array, " k"],
  weights: Float[Array, "b g"] | None = None,
) -> tuple[prototypes_lib.Comparison, Float[Array, " k"]]:
  """Compares student and teacher; also returns the teacher's new centre.

  Tokens of weight 0 are padding.
  """
  given = teacher, teacher_rows, temperature
  counted = jnp.ones(teacher.shape[:2])
  if weights is not None:
    counted = (weights > 0).astype(jnp.float32)
  if settings.centering == "mean":
    probabilities = prototypes_lib.centred(*given, center)
  else:
    probabilities = prototypes_lib.balanced(*given, weights=counted)
  found = prototypes_lib.compare(
    student, rows, settings.student_temperature, probabilities, counted
  )
  # The mean similarity is the similarity of the mean direction.
  total = jnp.einsum("bg,bge->e", counted, teacher.astype(jnp.float32))
  mean = total / jnp.maximum(counted.sum(), 1)
  return found, jnp.matmul(teacher_rows, mean, precision="highest")


def _encoded(
  network: nn.Module,
  params: contract.Params,
  crops: UInt8[Array, "b c s s 3"],
  mask: Bool[Array, "b c n"] | None = None,
  dropout: Key[Array, ""] | None = None,
  num_read: int | None = None,
) -> tuple[Float[Array, "b c d"], Float[Array, "b c n d"]]:
  """Returns class tokens and patches of each crop, after the last norm.

  Args:
    network: Vision Transformer without a head.
    params: Its parameters, with the mask token.
    crops: Crops of each image.
    mask: True for patches that the mask token replaces; None if there are none.
    dropout: Key of dropout and stochastic depth; None to disable them.
    num_read: Number of leading tokens that are read; None for all.
  """
  tokens = masked_tokens.encode(
    network,
    params,
    crops.reshape(-1, *crops.shape[2:]),
    params[_TOKEN],
    None if mask is None else mask.reshape(-1, mask.shape[2]),
    dropout=dropout,
    num_read=num_read,
  )
  tokens = tokens.reshape(*crops.shape[:2], *tokens.shape[1:])
  return tokens[:, :, 0], tokens[:, :, network.num_prefix :]
