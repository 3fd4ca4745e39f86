"""Predictions of patches that a given noise hides."""

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vit_jax import registry
from vit_jax.errors import UserError
from vit_jax.models import build
from vit_jax.objectives import contract, hidden_pixels
from vit_jax.objectives.mae import prediction


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
  wanted = hidden_pixels.targets(
    images,
    patch_size,
    grid,
    config.normalize,
    normalize_patches=normalize_pixels,
  )
  mask = hidden_pixels.hidden(visible, grid**2)
  loss = hidden_pixels.loss(predicted, wanted, mask)
  return loss, predicted.astype(jnp.float32), mask


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
