"""The host's image ops on one record, as one TensorFlow function.

Training, evaluation and prediction all call it, so that they see the same
pixels.
"""

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from vit_jax.data import encoded
from vit_jax.data.spec import Call, Preprocess
from vit_jax.data.tf_import import tf


class HostOps:
  """Applies the image ops of a preprocessing string to one image.

  Args:
    preprocess: the ops; those of labels and of the device are left alone.
    seed: of the augmentation.
    is_encoded: whether images come as encoded files or as pixels.
  """

  def __init__(self, preprocess: Preprocess, *, seed: int, is_encoded: bool):
    self._size = preprocess.image_size
    self._ops = _seeded(preprocess.of_kind("image"), seed)
    self._is_encoded = is_encoded

  def __call__(self, image: Any, row: Any, form: Any = None) -> Any:
    """uint8 [S, S, 3], S being the model's image size.

    Args:
      image: a string scalar, or uint8 [h, w, c] if images are not encoded.
      row: int64 scalar, row of the endless stream; what augmentation draws
        depends on it.
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


def _seeded(calls: tuple[Call, ...], seed: int) -> list[Any]:
  """Ops as functions of the row, each with a random stream of its own."""

  def bind(call: Call) -> Callable[[Any], Callable[[Any], Any]]:
    stream = np.uint64(seed << 32 | zlib.crc32(call.name.encode()))
    key = int(stream.astype(np.int64))

    def at_row(row: Any) -> Callable[[Any], Any]:
      row_seed = tf.stack([tf.constant(key, tf.int64), row])
      return lambda image: call.op.function(
        image, row_seed, *call.args, **call.kwargs
      )

    return at_row

  return [bind(call) for call in calls]
