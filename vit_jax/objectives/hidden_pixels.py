"""Pixels of hidden patches: which are hidden, targets, losses and pictures.

Shared by the masked autoencoders, which differ in how they predict them.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt8

from vit_jax import registry, rngs
from vit_jax.config import pixels as pixel_statistics
from vit_jax.config import schema
from vit_jax.models.layers import token_places
from vit_jax.models.layers.normalize import normalize
from vit_jax.objectives import contract, masked_autoencoders
from vit_jax.objectives import patches as patches_of

_GREY = 128
# Added to a patch's variance. models_mae.py
_EPSILON = 1e-6


def draw(
  rng: Key[Array, ""], num_images: int, num_patches: int, num_visible: int
) -> Int[Array, "b v"]:
  """Draws the visible patches of each image, in no particular order."""
  noise = jax.random.uniform(rng, (num_images, num_patches))
  return jnp.argsort(noise, axis=1)[:, :num_visible].astype(jnp.int32)


def targets(
  images: UInt8[Array, "b h w 3"] | Float[Array, "b h w 3"],
  patch_size: int,
  grid: int,
  normalization: str,
  *,
  normalize_patches: bool,
) -> Float[Array, "b n pixels"]:
  """Returns the pixels of every patch, row by row.

  Args:
    images: Images.
    patch_size: Side of a patch, pixels.
    grid: Patches along a side of the image.
    normalization: As `config.model.normalize`.
    normalize_patches: True to normalise each patch by its own mean and standard
      deviation. The variance is divided by one less than the number of pixels,
      as in `torch.var`.
  """
  pixels = patches_of.cut(images, patch_size, grid)
  pixels = normalize(pixels, normalization)
  pixels = pixels.reshape(*pixels.shape[:2], -1)
  if not normalize_patches:
    return pixels
  mean, deviation = statistics(pixels)
  return (pixels - mean) / deviation


def statistics(
  pixels: Float[Array, "b n pixels"],
) -> tuple[Float[Array, "b n 1"], Float[Array, "b n 1"]]:
  """Returns the mean of a patch and the divisor of its pixels."""
  mean = pixels.mean(axis=2, keepdims=True)
  variance = pixels.var(axis=2, keepdims=True, ddof=1)
  return mean, jnp.sqrt(variance + _EPSILON)


def hidden(visible: Int[Array, "b v"], num_patches: int) -> Float[Array, "b n"]:
  """Returns 1 for each patch that is hidden, 0 for the others."""
  ones = jnp.ones((*visible.shape, 1))
  return 1 - token_places.put(ones, visible, num_patches)[:, :, 0]


def loss(
  predicted: Float[Array, "b n pixels"],
  wanted: Float[Array, "b n pixels"],
  is_hidden: Float[Array, "b n"],
) -> Float[Array, ""]:
  """Returns the mean squared error of hidden patches, in float32."""
  errors = jnp.square(predicted.astype(jnp.float32) - wanted).mean(axis=2)
  return jnp.sum(errors * is_hidden) / jnp.sum(is_hidden)


def objective(
  config: schema.Config,
  init: Callable[[Key[Array, ""]], tuple[contract.Params, contract.State]],
  predict: Callable[..., Float[Array, "b n pixels"]],
  features: Callable[[contract.Params, Any], dict[str, Any]],
) -> contract.Objective:
  """Builds the objective that predicts the hidden patches of images.

  Args:
    config: The experiment, whose objective has `mask_ratio` and
      `normalize_pixels`.
    init: `init` of the objective.
    predict: `predict(params, images, visible, dropout)`, the predictions of
      all patches of images [b, h, w, 3], given the indices [b, v] of visible
      ones; `dropout` is a key, or None outside training. The parameters have a
      `decoder`.
    features: `features(params, images) -> {name: array}` of the encoder.
  """
  model, settings = config.model, config.objective
  grid, patch_size = registry.FAMILIES.get(model.name).grid(model)
  num_visible = masked_autoencoders.num_visible(config)

  def wanted(images, normalize_patches):
    return targets(
      images,
      patch_size,
      grid,
      model.normalize,
      normalize_patches=normalize_patches,
    )

  def prepare(batch: contract.Batch, rngs: contract.Rngs) -> contract.Batch:
    images = batch["image"]
    visible = draw(rngs("masks"), len(images), grid**2, num_visible)
    return {"image": images, "visible": visible}

  def loss_of_batch(
    params: contract.Params,
    constants: contract.Params,
    objective_state: contract.State,
    batch: contract.Batch,
    rngs: contract.Rngs,
    step: Int[Array, ""] | int,
  ) -> tuple[Float[Array, ""], tuple[contract.Aux, contract.Metrics]]:
    del constants, objective_state, step
    images, visible = batch["image"], batch["visible"]
    predicted = predict(params, images, visible, rngs("dropout"))
    value = loss(
      predicted,
      wanted(images, settings.normalize_pixels),
      hidden(visible, grid**2),
    )
    return value, ({}, {"loss": value})

  def reconstruct(params, images, ids):
    """Loss of each image [b], and two pictures of it, uint8 [b, h, w, 3].

    `masked` has grey instead of hidden patches, and `reconstruction` the
    predictions for them. The choice of hidden patches depends only on the id of
    an image.
    """
    visible = _visible_by_id(ids, grid**2, num_visible)
    is_hidden = hidden(visible, grid**2)
    predicted = predict(params, images, visible, None).astype(jnp.float32)
    errors = predicted - wanted(images, settings.normalize_pixels)
    errors = jnp.square(errors).mean(axis=2) * is_hidden
    if settings.normalize_pixels:
      mean, deviation = statistics(wanted(images, False))
      predicted = predicted * deviation + mean
    original = patches_of.cut(images, patch_size, grid)
    shown = _bytes(predicted.reshape(original.shape), model.normalize)
    keep = is_hidden[..., None, None, None] == 0
    return {
      "reconstruction_loss": errors.sum(axis=1) / (grid**2 - num_visible),
      "masked": patches_of.join(
        jnp.where(keep, original, jnp.uint8(_GREY)), grid
      ),
      "reconstruction": patches_of.join(jnp.where(keep, original, shown), grid),
    }

  def outputs(params: contract.Params, batch: contract.Batch) -> dict[str, Any]:
    images = batch["image"]
    found = features(params, images)
    if "decoder" in params and "id" in batch:
      found |= reconstruct(params, images, batch["id"])
    return found

  return contract.Objective(
    init=init, prepare=prepare, loss=loss_of_batch, outputs=outputs
  )


def _visible_by_id(
  ids: Int[Array, " b"], num_patches: int, num_visible: int
) -> Int[Array, "b v"]:
  key = rngs.stream(0, "reconstruction", 0)

  def draw_one(number):
    key_of_image = jax.random.fold_in(key, number)
    return draw(key_of_image, 1, num_patches, num_visible)[0]

  return jax.vmap(draw_one)(ids)


def _bytes(
  values: Float[Array, "*b c"], normalization: str
) -> UInt8[Array, "*b c"]:
  """Converts normalised values to the nearest pixels."""
  mean, deviation = (
    np.float32(part) for part in pixel_statistics.parse(normalization)
  )
  shape = (1,) * (values.ndim - 1) + (-1,)
  values = values * deviation.reshape(shape) + mean.reshape(shape)
  return jnp.clip(jnp.round(values * 255), 0, 255).astype(jnp.uint8)
