"""Global batches of images and their masks, on the devices."""

import contextlib
import itertools
import os
from collections.abc import Iterable, Iterator

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Int

from vit_jax.data import order, parallel
from vit_jax.data.pipeline import Placement, filled_size
from vit_jax.data.prefetch import Prefetcher
from vit_jax.data.segmentation.mask_files import IGNORED
from vit_jax.data.segmentation.masks import MaskFolder

_PREFETCH_BATCHES = 2
_PADDING = -1


def train_batches(
  folder: MaskFolder,
  *,
  image_size: int,
  mask_size: int,
  batch_size: int,
  num_steps: int,
  mesh: Mesh,
) -> Iterator[dict[str, jax.Array]]:
  """Shuffled batches: `image` [b, h, w, 3] and `label` [b, side, side], uint8.

  The order is always the same for the same number of examples. If `batch_size`
  is not divisible by the number of parts of a batch, the first rows are the
  examples, and the padding has no labels.

  Args:
    folder: Folder of the examples.
    image_size, mask_size: Sides, as for `MaskFolder.read`.
    batch_size: Number of examples in a batch.
    num_steps: Number of batches.
    mesh: Mesh of devices over which batches are divided.

  Raises:
    UserError: A file is damaged.
  """
  batches = (
    order.example_ids(
      np.arange(step * batch_size, (step + 1) * batch_size),
      folder.num_examples,
      seed=0,
    )[0]
    for step in range(num_steps)
  )
  return _placed(folder, batches, image_size, mask_size, mesh, batch_size)


def eval_batches(
  folder: MaskFolder,
  *,
  image_size: int,
  mask_size: int,
  batch_size: int,
  mesh: Mesh,
) -> Iterator[dict[str, jax.Array]]:
  """Batches with each example once, in order; padding has no labels.

  Arguments and errors are those of `train_batches`.
  """
  starts = range(0, folder.num_examples, batch_size)
  ids = (np.arange(start, start + batch_size) for start in starts)
  batches = (np.where(one < folder.num_examples, one, _PADDING) for one in ids)
  return _placed(folder, batches, image_size, mask_size, mesh, batch_size)


def _placed(
  folder: MaskFolder,
  batches: Iterable[Int[np.ndarray, " b"]],
  image_size: int,
  mask_size: int,
  mesh: Mesh,
  batch_size: int,
) -> Iterator[dict[str, jax.Array]]:
  size = filled_size(batch_size, mesh)
  filling = np.full(size - batch_size, _PADDING)
  placement = Placement(mesh, size)
  rows = placement.local_rows

  def read(example: int) -> tuple[np.ndarray, np.ndarray]:
    if example == _PADDING:
      return (
        np.zeros((image_size, image_size, 3), np.uint8),
        np.full((mask_size, mask_size), IGNORED, np.uint8),
      )
    return folder.read(example, image_size=image_size, mask_size=mask_size)

  def placed() -> Iterator[dict[str, jax.Array]]:
    local = itertools.chain.from_iterable(
      np.concatenate([ids, filling])[rows].tolist() for ids in batches
    )
    examples = parallel.in_threads(read, local, num_threads=os.cpu_count() or 1)
    with contextlib.closing(examples):
      while batch := list(itertools.islice(examples, len(rows))):
        images, labels = map(np.stack, zip(*batch, strict=True))
        yield placement.put({"image": images, "label": labels})

  made = placed()
  ready = Prefetcher(made, _PREFETCH_BATCHES)
  try:
    yield from ready
  finally:
    ready.close()
    made.close()
