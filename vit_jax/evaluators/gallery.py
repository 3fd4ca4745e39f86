"""A few images of an evaluation for display.

They are chosen while the split is read, so no image is read twice: evenly
spaced samples, known in advance, and the worst mistakes, known only at the end.
"""

import heapq
import io
import operator
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int, UInt8
from PIL import Image

from vit_jax.sharding import mesh as meshes

NUM_SAMPLES = 24
NUM_MISTAKES = 24
LONGEST_SIDE = 96


class Gallery:
  """Keeps thumbnails of chosen examples.

  All processes pass all batches to it, because fetching an image may involve
  all of them; `samples` and `mistakes` are then the ids of images that `png`
  encodes.
  """

  def __init__(self, num_examples: int, mesh: Mesh):
    spaced = np.linspace(0, num_examples - 1, min(NUM_SAMPLES, num_examples))
    self.samples = [int(example) for example in np.round(spaced)]
    # A heap with the mildest mistake first; among equals, the last id.
    self._mistakes: list[tuple[float, int]] = []
    self._thumbnails: dict[int, UInt8[np.ndarray, "h w 3"]] = {}
    self._replicated = meshes.replicated(mesh)
    self._take = jax.jit(operator.getitem, out_shardings=self._replicated)

  @property
  def mistakes(self) -> list[int]:
    """Returns the ids of the worst mistakes, worst first."""
    return [-example for _, example in sorted(self._mistakes, reverse=True)]

  def offer(
    self,
    images: UInt8[Array, "b h w c"],
    ids: Int[np.ndarray, " b"],
    mask: Bool[np.ndarray, " b"],
    correct: Bool[np.ndarray, " b"],
    severity: Float[np.ndarray, " b"],
  ) -> None:
    """Keeps selected images of a batch; `mask` is False for padding.

    The worst mistake has the largest severity: the highest confidence, or the
    largest error.
    """
    wanted = set(self.samples)
    rows = {r for r in np.flatnonzero(mask).tolist() if int(ids[r]) in wanted}
    wrong = mask & ~correct & np.isfinite(severity)
    for row in np.flatnonzero(wrong).tolist():
      entry = (float(severity[row]), -int(ids[row]))
      if len(self._mistakes) < NUM_MISTAKES:
        heapq.heappush(self._mistakes, entry)
      elif entry > self._mistakes[0]:
        heapq.heapreplace(self._mistakes, entry)
      else:
        continue
      rows.add(row)
    kept = wanted.union(self.mistakes)
    self._keep(images, {int(ids[r]): r for r in rows if int(ids[r]) in kept})
    for example in self._thumbnails.keys() - kept:
      del self._thumbnails[example]

  def png(self, example: int) -> bytes:
    """Returns the thumbnail of a kept example as a PNG file."""
    return encode(self._thumbnails[example])

  def _keep(self, images: Any, row_of: dict[int, int]) -> None:
    if not row_of:
      return
    # A fixed size for any count, so that it is compiled once.
    rows = np.zeros(NUM_SAMPLES + NUM_MISTAKES, np.int32)
    rows[: len(row_of)] = list(row_of.values())
    # Explicit, as required by a transfer guard.
    rows = jax.device_put(rows, self._replicated)
    taken = jax.device_get(self._take(images, rows))
    for example, image in zip(row_of, taken, strict=False):
      self._thumbnails[example] = thumbnail(image)


def thumbnail(
  image: UInt8[np.ndarray, "h w c"],
) -> UInt8[np.ndarray, "h2 w2 3"]:
  """Shrinks an image to at most `LONGEST_SIDE`; a small one is unchanged."""
  if image.shape[2] == 1:
    image = np.repeat(image, 3, axis=2)
  picture = Image.fromarray(image)
  picture.thumbnail((LONGEST_SIDE, LONGEST_SIDE), Image.Resampling.LANCZOS)
  return np.asarray(picture)


def encode(image: UInt8[np.ndarray, "h w 3"]) -> bytes:
  """Returns an image as a PNG file."""
  file = io.BytesIO()
  Image.fromarray(image).save(file, "PNG", optimize=True)
  return file.getvalue()
