"""Masked patch prediction: appendix B.1.2 of the ViT paper.

Half of an image's patch embeddings are corrupted, like words in BERT, and the
network predicts the content of each corrupted patch. There are no labels. The
network is the Vision Transformer of a supervised run, without its head;
`mask_token` and `patch_head` are added to it, and are dropped when another run
starts from the parameters.
"""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.models import build as models_build
from vit_jax.models import features
from vit_jax.models.layers import heads, token_places
from vit_jax.objectives import contract
from vit_jax.objectives.masked_patch import kind, targets

# Probabilities that a corrupted patch's embedding is replaced by the mask
# token, or by that of another patch of the image; otherwise it is kept. [P]
MASK, OTHER = 0.8, 0.1
# Stands for the mask token instead of a patch's index.
MASK_TOKEN = -1


def masked_patch(config: schema.Config) -> contract.Objective:
  """Builds prediction of corrupted patches by a config's ViT."""
  family = registry.FAMILIES.get(config.model.name)
  width = family.size(config.model).width
  grid, patch_size = family.grid(config.model)
  num_corrupted = kind.num_corrupted(config)
  target = targets.TARGETS[config.objective.target]
  plain = models_build.create(config.model, num_classes=None)
  head = heads.LinearHead(
    kind.NUM_OUTPUTS[config.objective.target](patch_size),
    0.0,
    config.model.dtype,
  )

  def init(rng: Key[Array, ""]) -> tuple[contract.Params, contract.State]:
    model_rng, token_rng, head_rng = jax.random.split(rng, 3)
    images = jnp.zeros((1, *[config.model.image_size] * 2, 3), jnp.uint8)
    normal = nn.initializers.normal(0.02)
    beside = {
      "mask_token": normal(token_rng, (1, 1, width)),
      "patch_head": head.init(head_rng, jnp.zeros((1, width)))["params"],
    }
    return {**plain.init(model_rng, images)["params"], **beside}, {}

  def prepare(batch: contract.Batch, rngs: contract.Rngs) -> contract.Batch:
    corrupted, source = draw(
      rngs("corruption"),
      num_images=len(batch["image"]),
      num_patches=grid**2,
      num_corrupted=num_corrupted,
    )
    return {"image": batch["image"], "corrupted": corrupted, "source": source}

  def loss(
    params: contract.Params,
    constants: contract.Params,
    objective_state: contract.State,
    batch: contract.Batch,
    rngs: contract.Rngs,
    step: Int[Array, ""] | int,
  ) -> tuple[Float[Array, ""], tuple[contract.Aux, contract.Metrics]]:
    del constants, objective_state, step
    images, corrupted = batch["image"], batch["corrupted"]
    patches = plain.apply(
      {"params": params},
      images,
      params["mask_token"],
      batch["source"],
      corrupted,
      rngs={"dropout": rngs("dropout")},
      method=corrupted_features,
    ).astype(config.model.dtype)
    outputs = head.apply({"params": params["patch_head"]}, patches)
    wanted = target.of(images, patch_size, grid, config.model.normalize)
    wanted = jnp.take_along_axis(wanted, corrupted[:, :, None], axis=1)
    metrics = target.metrics(outputs, wanted)
    return metrics["loss"], ({}, metrics)

  def outputs(params: contract.Params, batch: contract.Batch) -> dict[str, Any]:
    return features.features(plain, params, batch["image"], ("pre_logits",))

  return contract.Objective(
    init=init, prepare=prepare, loss=loss, outputs=outputs
  )


def corrupted_features(
  model: nn.Module,
  images: Array,
  mask_token: Float[Array, "1 1 d"],
  source: Int[Array, "b n"],
  corrupted: Int[Array, "b k"],
) -> Float[Array, "b k d"]:
  """Computes the features of corrupted patches in training.

  Args:
    model: Vision Transformer without a head.
    images: Images of the batch.
    mask_token: Embedding that replaces a masked patch.
    source: For every patch, the one whose embedding it receives, as returned by
      `draw`.
    corrupted: Indices of the patches whose features are computed.
  """
  patches = corrupt(model.embed_patches(images), mask_token, source)
  places = model.num_prefix + corrupted
  tokens = model.encode(model.add_prefix(patches), train=True, read_at=places)
  return model.head(tokens, pool="none")


def draw(
  rng: Key[Array, ""], *, num_images: int, num_patches: int, num_corrupted: int
) -> tuple[Int[Array, "b k"], Int[Array, "b n"]]:
  """Draws the patches of each image that are corrupted, and their sources.

  Args:
    rng: Key of this step.
    num_images: Number of images of the global batch.
    num_patches: Number of patches per image.
    num_corrupted: Number of corrupted patches per image, the same for all.

  Returns:
    The indices of the corrupted patches, in no particular order; and for every
    patch the index of the one whose embedding it receives: its own, another's
    or `MASK_TOKEN`.
  """
  which_rng, how_rng, other_rng = jax.random.split(rng, 3)
  shape = (num_images, num_patches)
  order = jnp.argsort(jax.random.uniform(which_rng, shape), axis=1)
  corrupted = order[:, :num_corrupted].astype(jnp.int32)
  is_corrupted = jnp.argsort(order, axis=1) < num_corrupted
  own = jnp.broadcast_to(jnp.arange(num_patches, dtype=jnp.int32), shape)
  distance = jax.random.randint(other_rng, shape, 1, max(2, num_patches))
  chance = jax.random.uniform(how_rng, shape)
  source = jnp.where(chance < MASK + OTHER, (own + distance) % num_patches, own)
  source = jnp.where(chance < MASK, MASK_TOKEN, source)
  return corrupted, jnp.where(is_corrupted, source, own)


def corrupt(
  patches: Float[Array, "b n d"],
  mask_token: Float[Array, "1 1 d"],
  source: Int[Array, "b n"],
) -> Float[Array, "b n d"]:
  """Replaces embeddings by others, as drawn by `draw`."""
  is_masked = source[:, :, None] == MASK_TOKEN
  return jnp.where(
    is_masked,
    mask_token.astype(patches.dtype),
    token_places.take(patches, source),
  )
