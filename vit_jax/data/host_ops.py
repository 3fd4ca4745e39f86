"""The host's image ops on one record, as one TensorFlow function.

Training, evaluation and prediction all call it, so that they see the same
pixels.
"""

import functools
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vit_jax.data import encoded
from vit_jax.data.features import View
from vit_jax.data.spec import Call, Preprocess
from vit_jax.data.tf_import import tf


class HostOps:
  """Applies the image ops of a preprocessing string to one image.

  Args:
    preprocess: The ops; those of labels and of the device are left alone.
    seed: Seed of the augmentation.
    is_encoded: True for encoded files, False for pixels.
    stream: Prefix of the names of the ops' random streams.
  """

  def __init__(
    self,
    preprocess: Preprocess,
    *,
    seed: int,
    is_encoded: bool,
    stream: str = "",
  ):
    self._size = preprocess.image_size
    self._ops = [
      _seeded(call, seed, stream) for call in preprocess.of_kind("image")
    ]
    self._is_encoded = is_encoded

  def __call__(self, image: Any, row: Any, form: Any = None) -> Any:
    """uint8 [S, S, 3], S being the size of the preprocessing.

    Args:
      image: String scalar, or uint8 [h, w, c] if images are not encoded.
      row: int64 scalar, row of the endless stream; random draws depend on it.
      form: int32 scalar, `encoded.form` of an encoded image.
    """
    first, *others = (op(row) for op in self._ops)
    if not self._is_encoded:
      image = first(encoded.PixelImage(image))
    else:
      # Decoding is left to the first op that wants pixels.
      if others:
        first, *others = others
      image = encoded.decode_into(first, image, form)
    for op in others:
      image = op(encoded.PixelImage(image))
    return tf.ensure_shape(image, (self._size, self._size, 3))


class HostViews:
  """Makes all views of one image.

  An image that is cropped more than once is decoded once, as a whole; of one
  that is cropped once no more is decoded than the crop needs.
  """

  def __init__(self, views: Sequence[View], *, seed: int, is_encoded: bool):
    self._is_shared = is_encoded and sum(len(v.streams) for v in views) > 1
    is_encoded = is_encoded and not self._is_shared
    make = functools.partial(HostOps, seed=seed, is_encoded=is_encoded)
    self._crops = [
      (view, [make(view.preprocess, stream=stream) for stream in view.streams])
      for view in views
    ]

  def __call__(self, image: Any, row: Any, form: Any = None) -> dict[str, Any]:
    """View name -> uint8 of the view's shape; arguments as of `HostOps`."""
    if self._is_shared:
      image = encoded.decode_into(lambda whole: whole.pixels(), image, form)
    result = {}
    for view, crops in self._crops:
      made = [crop(image, row, form) for crop in crops]
      result[view.name] = made[0] if view.count is None else tf.stack(made)
    return result


def _seeded(
  call: Call, seed: int, stream: str
) -> Callable[[Any], Callable[[Any], Any]]:
  """The op as a function of the row, with a random stream of its own."""
  named = zlib.crc32((stream + call.name).encode())
  key = int(np.uint64(seed << 32 | named).astype(np.int64))

  def at_row(row: Any) -> Callable[[Any], Any]:
    row_seed = tf.stack([tf.constant(key, tf.int64), row])
    return lambda image: call.op.function(
      image, row_seed, *call.args, **call.kwargs
    )

  return at_row
