"""The host's image ops on one record, as one TensorFlow function.

Training, evaluation and prediction all use it, so they see the same pixels.
"""

import functools
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from vit_jax.data import encoded
from vit_jax.data.features import View
from vit_jax.data.spec import Call, Preprocess
from vit_jax.data.tf_import import tf


class HostOps:
  """Applies the image ops of a preprocessing string to one image.

  Args:
    preprocess: The ops; label ops and device ops are not applied.
    seed: Seed of the augmentation.
    is_encoded: True for encoded files, False for pixels.
  """

  def __init__(self, preprocess: Preprocess, *, seed: int, is_encoded: bool):
    self._size = preprocess.image_size
    self._calls = preprocess.of_kind("image")
    self._seed = seed
    self._is_encoded = is_encoded

  def __call__(self, image: Any, row: Any, form: Any = None) -> Any:
    """Returns uint8 [S, S, 3], where S is the size of the preprocessing.

    Args:
      image: String scalar, or uint8 [h, w, c] if images are not encoded.
      row: int64 scalar, row of the endless stream, which determines random
        draws.
      form: int32 scalar, `encoded.form` of an encoded image.
    """
    return self.apply(image, row, self.keys(), form)

  def keys(self, stream: str = "") -> np.ndarray:
    """Returns the seeds of the ops in a random stream, int64 [ops]."""
    names = (zlib.crc32((stream + call.name).encode()) for call in self._calls)
    keys = [self._seed << 32 | name for name in names]
    return np.asarray(keys, np.uint64).astype(np.int64)

  def apply(self, image: Any, row: Any, keys: Any, form: Any = None) -> Any:
    """Applies the ops with their own seeds; see `__call__`."""
    first, *others = (
      functools.partial(_apply, call, tf.stack([keys[index], row]))
      for index, call in enumerate(self._calls)
    )
    if not self._is_encoded:
      image = first(encoded.PixelImage(image))
    else:
      # Decoding is left to the first op that needs pixels.
      if others:
        first, *others = others
      image = encoded.decode_into(first, image, form)
    for op in others:
      image = op(encoded.PixelImage(image))
    return tf.ensure_shape(image, (self._size, self._size, 3))


class HostViews:
  """Creates all views of one image.

  An image cropped more than once is decoded once, completely; one cropped once
  is decoded only as far as the crop needs.
  """

  def __init__(self, views: Sequence[View], *, seed: int, is_encoded: bool):
    self._is_shared = is_encoded and sum(len(v.streams) for v in views) > 1
    is_encoded = is_encoded and not self._is_shared
    self._views = [
      (view, HostOps(view.preprocess, seed=seed, is_encoded=is_encoded))
      for view in views
    ]

  def __call__(self, image: Any, row: Any, form: Any = None) -> dict[str, Any]:
    """Maps names of views to uint8 arrays; arguments are those of `HostOps`."""
    if self._is_shared:
      image = encoded.decode_into(lambda whole: whole.pixels(), image, form)
    result = {}
    for view, ops in self._views:
      if view.count is None:
        result[view.name] = ops(image, row, form)
        continue
      # Traced and optimized once, as ten crops would otherwise take half a
      # minute.
      apply = tf.function(
        ops.apply,
        autograph=False,
        experimental_attributes={"_noinline": True},
      )
      keys = [ops.keys(stream) for stream in view.streams]
      crops = [apply(image, row, tf.constant(key), form) for key in keys]
      result[view.name] = tf.stack(crops)
    return result


def _apply(call: Call, seed: Any, image: Any) -> Any:
  return call.op.function(image, seed, *call.args, **call.kwargs)
