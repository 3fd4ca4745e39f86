"""The probabilities of classes for image files."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8

from vit_jax.config import schema
from vit_jax.models import build as models_build
from vit_jax.objectives import losses
from vit_jax.pretrained.inference import Inference
from vit_jax.sharding import mesh as meshes

if TYPE_CHECKING:
  from vit_jax.data.image_files import ImageFile

# Pixels of a batch: 32 images of 224 x 224.
_BATCH_PIXELS = 32 * 224**2
_MAX_BATCH = 256


def predict(
  use: Inference, paths: Sequence[str]
) -> Iterator[tuple["ImageFile", np.ndarray | None]]:
  """Classifies image files on all devices.

  Args:
    use: Checkpoint to apply.
    paths: Image files.

  Yields:
    Each file in order, with its probabilities, float32 [num_classes], or None
    where `problem` says why it has no pixels.
  """
  # Decoding needs TensorFlow, which is imported last.
  from vit_jax.data import image_files, spec

  model = use.weights.model
  mesh = meshes.create_mesh(schema.Mesh())
  shards = meshes.batch_shards(mesh)
  wanted = min(_MAX_BATCH, _BATCH_PIXELS // model.image_size**2, len(paths))
  batch_size = -(-max(wanted, 1) // shards) * shards
  preprocess = spec.check(
    use.weights.preprocess, model.image_size, where="preprocess", train=False
  )
  params = jax.device_put(use.weights.params, meshes.replicated(mesh))
  probabilities = jax.jit(
    _probabilities(use),
    in_shardings=(meshes.replicated(mesh), meshes.batch_sharding(mesh)),
    out_shardings=meshes.replicated(mesh),
  )
  side = model.image_size
  for files in image_files.read(paths, preprocess, batch_size=batch_size):
    images = np.zeros((batch_size, side, side, 3), np.uint8)
    decoded = [file.pixels for file in files if file.pixels is not None]
    if decoded:
      images[: len(decoded)] = decoded
      rows = iter(jax.device_get(probabilities(params, images)))
    for file in files:
      yield file, None if file.pixels is None else next(rows)


def _probabilities(use: Inference):
  model = models_build.create(
    use.weights.model, num_classes=use.weights.model.num_classes
  )
  activation = losses.PROBABILITIES[use.weights.activation]

  def probabilities(
    params, images: UInt8[Array, "b h w c"]
  ) -> Float[Array, "b classes"]:
    logits = model.apply({"params": params}, images)
    return activation(logits.astype(jnp.float32))

  return probabilities
