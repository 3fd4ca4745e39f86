"""Reconstructions of images, for metrics and for display."""

from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt8

from vit_jax import registry, rngs
from vit_jax.config import pixels, schema
from vit_jax.errors import UserError
from vit_jax.models import build
from vit_jax.models.layers import token_places
from vit_jax.objectives import contract
from vit_jax.objectives import patches as patches_of
from vit_jax.objectives.mae import kind, prediction
from vit_jax.objectives.mae.decoder import Decoder

_GREY = 128


def reconstruct(
  model: nn.Module,
  params: contract.Params,
  images: Float[Array | np.ndarray, "b h w 3"],
  noise: Float[Array | np.ndarray, "b n"],
  *,
  mask_ratio: float = 0.75,
  normalize_pixels: bool = True,
) -> tuple[Float[Array, ""], Float[Array, "b n pixels"], Float[Array, "b n"]]:
  """Predicts the image patches that a given noise hides.

  Args:
    model: The encoder, as returned by `vit_jax.load`.
    params: Parameters of the encoder, with the decoder's under `decoder`, as
      returned by `vit_jax.load(path, pretraining=True)`.
    images: Normalised images of the encoder's size.
    noise: Noise per patch; the `int(n * (1 - mask_ratio))` patches with the
      least are visible.
    mask_ratio: Fraction of the patches that are hidden.
    normalize_pixels: True if the decoder predicts patches normalised by their
      mean and deviation.

  Returns:
    The mean squared error of the hidden patches; the predictions of all
    patches, pixels row by row; and 1 for each patch that is hidden.

  Raises:
    UserError: The parameters have no decoder, or the shapes do not fit.
  """
  if "decoder" not in params:
    raise UserError(
      "The parameters have no decoder; load a checkpoint that has one by"
      " vit_jax.load(path, pretraining=True)."
    )
  images, noise = jnp.asarray(images), jnp.asarray(noise)
  config = build.family_of(model).config_of(model)
  grid, patch_size = registry.FAMILIES.get(config.name).grid(config)
  _check_shapes(images, noise, config.image_size, grid)
  decoder = prediction.decoder_with(config, params["decoder"])
  num_visible = int(noise.shape[1] * (1 - mask_ratio))
  order = jnp.argsort(noise, axis=1)
  visible = order[:, :num_visible].astype(jnp.int32)
  predicted = prediction.predict(model, decoder, params, images, visible)
  predicted = predicted.astype(jnp.float32)
  settings = schema.MAE(normalize_pixels=normalize_pixels)
  wanted = prediction.targets(
    images, patch_size, grid, config.normalize, settings
  )
  seen = token_places.put(jnp.ones((*visible.shape, 1)), visible, grid**2)
  mask = 1 - seen[:, :, 0]
  errors = jnp.square(predicted - wanted).mean(axis=2)
  return jnp.sum(errors * mask) / jnp.sum(mask), predicted, mask


def _check_shapes(
  images: Array, noise: Array, image_size: int, grid: int
) -> None:
  size = (image_size, image_size, 3)
  if images.shape[1:] != size:
    raise UserError(
      f"images of the shape {images.shape} do not suit the network, which takes"
      f" {('b', *size)}; resize them, or load it with image_size=SIDE."
    )
  wanted = (len(images), grid**2)
  if noise.shape != wanted:
    raise UserError(
      f"noise of the shape {noise.shape} does not suit {len(images)} images of"
      f" {grid} x {grid} patches; give a number for each patch, {wanted}."
    )


def reconstructor(
  config: schema.Config, encoder: nn.Module, decoder: Decoder
) -> Callable[..., dict[str, Array]]:
  """Makes `reconstruct(params, images, ids) -> {name: array}`.

  The result has `reconstruction_loss` [b], the loss of each image; `masked` and
  `reconstruction`, uint8 [b, h, w, 3], the images with grey instead of hidden
  patches, and with the predictions for them. The choice of hidden patches
  depends only on the id of an image.
  """
  model = config.model
  grid, patch_size = registry.FAMILIES.get(model.name).grid(model)
  num_visible = kind.num_visible(config)

  def reconstruct(
    params: contract.Params,
    images: UInt8[Array, "b h w 3"],
    ids: Int[Array, " b"],
  ) -> dict[str, Array]:
    visible = _visible(ids, grid**2, num_visible)
    predicted = prediction.predict(encoder, decoder, params, images, visible)
    predicted = predicted.astype(jnp.float32)
    wanted = prediction.targets(
      images, patch_size, grid, model.normalize, config.objective
    )
    is_visible = token_places.put(
      jnp.ones((*visible.shape, 1)), visible, grid**2
    )
    errors = jnp.square(predicted - wanted).mean(axis=2)
    errors = errors * (1 - is_visible[..., 0])
    if config.objective.normalize_pixels:
      plain = prediction.targets(
        images,
        patch_size,
        grid,
        model.normalize,
        config.objective.model_copy(update={"normalize_pixels": False}),
      )
      mean, deviation = prediction.statistics(plain)
      predicted = predicted * deviation + mean
    original = patches_of.cut(images, patch_size, grid)
    shown = _bytes(predicted.reshape(original.shape), model.normalize)
    keep = is_visible[..., None, None] > 0
    return {
      "reconstruction_loss": errors.sum(axis=1) / (grid**2 - num_visible),
      "masked": patches_of.join(
        jnp.where(keep, original, jnp.uint8(_GREY)), grid
      ),
      "reconstruction": patches_of.join(jnp.where(keep, original, shown), grid),
    }

  return reconstruct


def _visible(
  ids: Int[Array, " b"], num_patches: int, num_visible: int
) -> Int[Array, "b v"]:
  key = rngs.stream(0, "reconstruction", 0)

  def draw(number):
    key_of_image = jax.random.fold_in(key, number)
    return prediction.draw(key_of_image, 1, num_patches, num_visible)[0]

  return jax.vmap(draw)(ids)


def _bytes(
  values: Float[Array, "*b c"], normalization: str
) -> UInt8[Array, "*b c"]:
  """Converts normalised values to the nearest pixels."""
  mean, deviation = (np.float32(part) for part in pixels.parse(normalization))
  shape = (1,) * (values.ndim - 1) + (-1,)
  values = values * deviation.reshape(shape) + mean.reshape(shape)
  return jnp.clip(jnp.round(values * 255), 0, 255).astype(jnp.uint8)
