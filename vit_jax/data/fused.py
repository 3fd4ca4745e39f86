"""Functions of pixels that XLA compiles.

TensorFlow makes a pass over the image, and memory for its result, for each
operation; XLA makes one pass for many of them. Compiling takes 0.3 s at the
first image.
"""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec

from vit_jax.data.tf_import import tf

Tensor = Any
P = ParamSpec("P")


def fused(function: Callable[P, Tensor]) -> Callable[P, Tensor]:
  """Decorates a function of pixels, of numbers and of settings.

  It is compiled for each shape, and so only where the shape is known; numbers
  become tensors, and settings are whatever else is hashable.

  Args:
    function: `(pixels, *numbers_and_settings, **settings)` to pixels.
  """

  @functools.cache
  def compiled() -> Callable[..., Tensor]:
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
