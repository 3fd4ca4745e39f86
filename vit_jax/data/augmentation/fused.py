"""Functions of pixels, compiled by XLA.

For each operation TensorFlow makes a pass over the image and allocates the
result; XLA makes one pass for many operations. Compiling takes 0.3 s for the
first image. On every x86 processor the pixels are those of TensorFlow's own
operations: products and sums are rounded separately.
"""

import functools
import os
import platform
from collections.abc import Callable
from typing import Any, ParamSpec

from vit_jax.data.tf_import import tf

Tensor = Any
P = ParamSpec("P")
# Without fused multiply-add instructions, which not all processors have and
# Pillow does not use.
_FLAGS = "--xla_cpu_max_isa=AVX"


def fused(function: Callable[P, Tensor]) -> Callable[P, Tensor]:
  """Decorates a function of pixels, of numbers and of settings.

  It is compiled for each shape, so only if the shape is known; numbers become
  tensors, and settings are all other hashable arguments.

  Args:
    function: Function `(pixels, *numbers_and_settings, **settings)`, with
      pixels uint8 [h, w, 3], that returns any tensor.
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
  """Makes TensorFlow's XLA read its flags, which it does only once.

  XLA_FLAGS are meant for jax's XLA, which has another version: TensorFlow's
  would end the process at an unknown flag.
  """
  said = os.environ.pop("XLA_FLAGS", None)
  if platform.machine() in ("x86_64", "AMD64"):
    os.environ["XLA_FLAGS"] = _FLAGS
  try:
    with tf.init_scope():  # Immediately, even while tracing a pipeline.
      tf.function(lambda x: x + 1, autograph=False, jit_compile=True)(
        tf.constant(0)
      )
  finally:
    os.environ.pop("XLA_FLAGS", None)
    if said is not None:
      os.environ["XLA_FLAGS"] = said
