"""Image ops of an evaluation on single images, in NumPy if possible."""

import contextlib
import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import UInt8

from vit_jax.data import encoded, numpy_ops
from vit_jax.data.host_ops import HostOps
from vit_jax.data.spec import Preprocess
from vit_jax.data.tf_import import tf

Pixels = UInt8[np.ndarray, "side side 3"]


class SingleImages:
  """Applies a preprocessing string to images; usable from any thread.

  TensorFlow is imported only for ops and files for which nothing else gives the
  same bits.
  """

  def __init__(self, preprocess: Preprocess):
    self._preprocess = preprocess
    self._numpy = None
    if numpy_ops.supported(preprocess):
      self._numpy = numpy_ops.NumpyOps(preprocess)
    self._lock = threading.Lock()

  def of_file(self, image: bytes) -> Pixels:
    """Decodes the content of an image file and applies the ops.

    Raises:
      tf.errors.OpError: The file is damaged, or does not suit the ops.
    """
    if self._numpy:
      # TensorFlow reads files that fail here, or raises the error.
      with contextlib.suppress(Exception):
        return self._numpy(image)
    with self._lock:
      ops = self._tensorflow
    return ops(image, encoded.form(image)).numpy()

  def of_pixels(self, image: UInt8[np.ndarray, "h w 3"]) -> Pixels:
    """Applies the ops to a decoded image.

    Raises:
      ValueError, tf.errors.OpError: The image does not suit the ops.
    """
    if self._numpy:
      return self._numpy.of_pixels(image)
    with self._lock:
      ops = self._tensorflow_of_pixels
    return ops(image).numpy()

  @functools.cached_property
  def _tensorflow(self) -> Callable[[bytes, int], Any]:
    return self._traced(
      is_encoded=True,
      signature=[tf.TensorSpec([], tf.string), tf.TensorSpec([], tf.int32)],
    )

  @functools.cached_property
  def _tensorflow_of_pixels(self) -> Callable[[np.ndarray], Any]:
    return self._traced(
      is_encoded=False, signature=[tf.TensorSpec([None, None, 3], tf.uint8)]
    )

  def _traced(self, *, is_encoded: bool, signature: list[Any]) -> Any:
    ops = HostOps(self._preprocess, seed=0, is_encoded=is_encoded)
    row = np.int64(0)  # Evaluation ops draw no random numbers.
    return tf.function(
      lambda image, form=None: ops(image, row, form),
      input_signature=signature,
      autograph=False,
    )
