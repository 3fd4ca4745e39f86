"""Applying a function to image files, in batches on all devices."""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from vit_jax.config import schema
from vit_jax.data import image_files, spec
from vit_jax.data.image_files import ImageFile
from vit_jax.errors import UserError
from vit_jax.pretrained.inference import Inference
from vit_jax.sharding import mesh as meshes

Path = str | os.PathLike

# Pixels per batch: 32 images of 224 x 224.
_BATCH_PIXELS = 32 * 224**2
_MAX_BATCH = 256


def batch_size(image_size: int, num_images: int | None = None) -> int:
  """Returns the number of images per batch, a multiple of the devices.

  Args:
    image_size: Side of the images in pixels.
    num_images: Total number of images, if few images may use a smaller batch.
  """
  shards = meshes.batch_shards(meshes.create_mesh(schema.Mesh()))
  wanted = min(_MAX_BATCH, _BATCH_PIXELS // image_size**2)
  if num_images is not None:
    wanted = min(wanted, num_images)
  return -(-max(wanted, 1) // shards) * shards


def finite_rows(
  use: Inference,
  checkpoint: str,
  paths: Sequence[str],
  function: Callable[[Any, Any], Any],
  *,
  what: str,
) -> Iterator[tuple[ImageFile, np.ndarray | None]]:
  """Like `rows`, but requires finite results.

  Args:
    use, paths, function: As for `rows`.
    checkpoint: Path of the checkpoint, for messages.
    what: Name of the results, for messages.

  Raises:
    UserError: A result is not finite.
  """
  size = batch_size(use.weights.model.image_size, len(paths))
  for file, row in rows(use, paths, function, batch_size=size):
    if row is not None and not np.isfinite(row).all():
      raise UserError(
        f"{checkpoint} gives {what} that are not finite; its parameters are not"
        " those of a trained network."
      )
    yield file, row


def of_all(
  images: Path | Sequence[Path],
  function: Callable[[Sequence[str]], Iterator[tuple[ImageFile, Any]]],
) -> list[Any]:
  """Applies a function to all named images and returns its results.

  Args:
    images: Files, folders (searched recursively) and glob patterns.
    function: Paths -> each file with its result.

  Raises:
    UserError: An image is missing or cannot be read; the message names it.
  """
  if isinstance(images, str | os.PathLike):
    images = [images]
  found = []
  for file, result in function(image_files.find(list(map(os.fspath, images)))):
    if result is None:
      raise UserError(file.problem)
    found.append(result)
  return found


def rows(
  use: Inference,
  paths: Sequence[str],
  function: Callable[[Any, Any], Any],
  *,
  batch_size: int,
) -> Iterator[tuple[ImageFile, np.ndarray | None]]:
  """Applies a function to images, preprocessed as in evaluations.

  Files are decoded in threads, ahead of the devices.

  Args:
    use: Checkpoint whose parameters and preprocessing are used.
    paths: Image files.
    function: (parameters, uint8 [b, h, w, 3]) -> array [b, ...]; it is
      compiled here.
    batch_size: Batch size, as returned by `batch_size`.

  Yields:
    Each file in order, with its row of the result, or None if `problem`
    describes why it cannot be read.
  """
  mesh = meshes.create_mesh(schema.Mesh())
  side = use.weights.model.image_size
  preprocess = spec.check(
    use.weights.preprocess, side, where="preprocess", train=False
  )
  params = jax.device_put(use.weights.params, meshes.replicated(mesh))
  compute = jax.jit(
    function,
    in_shardings=(meshes.replicated(mesh), meshes.batch_sharding(mesh)),
    out_shardings=meshes.replicated(mesh),
  )
  for files in image_files.read(paths, preprocess, batch_size=batch_size):
    images = np.zeros((batch_size, side, side, 3), np.uint8)
    decoded = [file.pixels for file in files if file.pixels is not None]
    if decoded:
      images[: len(decoded)] = decoded
      computed = iter(jax.device_get(compute(params, images)))
    for file in files:
      yield file, None if file.pixels is None else next(computed)
