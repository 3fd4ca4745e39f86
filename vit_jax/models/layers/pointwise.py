"""Dense layers of maps, which on TPUs are 1 x 1 convolutions.

XLA turns a dense layer into a product of two matrices, for which it flattens
the places of a map. If the side is a multiple of eight, that is free with
columns and channels innermost in a TPU's memory, so XLA chooses that layout,
although the neighbouring convolutions prefer images and channels there. A
convolution leaves the order open (docs/notes/performance.md).
"""

from typing import Any

import jax
from jax.ad_checkpoint import checkpoint_name
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from vit_jax.models.layers import placement

# Name of the convolutions' results, which count as products in
# `config.model.remat`.
PRODUCT = "product"
_PLACES = (((3,), (0,)), ((), ()))


def dense(
  x: Float[Array, "b h w c"], kernel: Float[Array, "c k"]
) -> Float[Array, "b h w k"]:
  """The product of the channels at each place with `kernel`."""
  return dot_general(x, kernel, _PLACES)


def dot_general(
  x: Float[Array, "b h w c"],
  kernel: Float[Array, "c k"],
  dimension_numbers: Any,
  precision: jax.lax.PrecisionLike = None,
  preferred_element_type: DTypeLike | None = None,
) -> Float[Array, "b h w k"]:
  """`jax.lax.dot_general` for maps, to pass to `nn.Dense` as `dot_general`."""
  if placement.platform() != "tpu":
    return jax.lax.dot_general(
      x, kernel, dimension_numbers, precision, preferred_element_type
    )
  product = jax.lax.conv_general_dilated(
    x,
    kernel[None, None],
    window_strides=(1, 1),
    padding="VALID",
    dimension_numbers=("NHWC", "HWIO", "NHWC"),
    precision=precision,
    preferred_element_type=preferred_element_type,
  )
  return checkpoint_name(product, PRODUCT)
