"""Functions of pixels that XLA compiles.

TensorFlow makes a pass over the image, and memory for its result, for each
operation; XLA makes one pass for many of them. Compiling takes 0.3 s at the
first image. The pixels are those of TensorFlow's own operations, on every x86
processor: products and sums are rounded one after the other.
"""

import functools
import os
import platform
from collections.abc import Callable
from typing import Any, ParamSpec

from vit_jax.data.tf_import import tf

Tensor = Any
P = ParamSpec("P")
# Without the instructions that round a product and a sum once, which not all
# processors have and Pillow does not use.
_FLAGS = "--xla_cpu_max_isa=AVX"


def fused(function: Callable[P, Tensor]) -> Callable[P, Tensor]:
  """Decorates a function of pixels, of numbers and of settings.

  It is compiled for each shape, and so only where the shape is known; numbers
  become tensors, and settings are whatever else is hashable.

  Args:
    function: `(pixels, *numbers_and_settings, **settings)`, where pixels are
      uint8 [h, w, 3], to any tensor.
  """

  @functools.cache
  def compiled() -> Callable[..., Tensor]:
    _read_flags()
    return tf.function(function, autograph=False, jit_compile=True)

  @functools.wraps(function)
  def call(pixels: Tensor, *arguments: Any, **settings: Any) -> Tensor:
    pixels = tf.convert_to_tensor(pixels)
    arguments = tuple(
      tf.constant(one, tf.float64) if isinstance(one, int | float) else one
      for one in arguments
    )
    run = compiled() if pixels.shape.is_fully_defined() else function
    return run(pixels, *arguments, **settings)

  return call


@functools.cache
def _read_flags() -> None:
  """Has TensorFlow's XLA read its flags, which it does once.

  XLA_FLAGS are meant for jax's XLA, which is of another version: at a flag that
  TensorFlow's does not know it would end the process.
  """
  said = os.environ.pop("XLA_FLAGS", None)
  if platform.machine() in ("x86_64", "AMD64"):
    os.environ["XLA_FLAGS"] = _FLAGS
  try:
    with tf.init_scope():  # Now, even while a pipeline is being traced.
      tf.function(lambda x: x + 1, autograph=False, jit_compile=True)(
        tf.constant(0)
      )
  finally:
    os.environ.pop("XLA_FLAGS", None)
    if said is not None:
      os.environ["XLA_FLAGS"] = said
