"""A stage of a convolutional network: residual units of one width."""

from collections.abc import Callable

import flax.linen as nn
from jaxtyping import Array, Float

from vit_jax.models.layers.convolution import REMAT_POLICIES


class Stage(nn.Module):
  """Units of one width; the first has the stride.

  Attributes:
    unit: Class of the units, made of (width, stride, dtype, standardization).
    unit_name: Index of a unit -> its name.
    num_units: Number of units.
    width: Inner width of the units.
    stride: Stride of the first unit, pixels.
    dtype: As `config.model.dtype`.
    remat: As `config.model.remat`, for each unit.
    standardization: As `config.model.standardization`.
  """

  unit: type[nn.Module]
  unit_name: Callable[[int], str]
  num_units: int
  width: int
  stride: int
  dtype: str
  remat: str
  standardization: str

  @nn.compact
  def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b y x k"]:
    unit = self.unit
    if self.remat != "none":
      unit = nn.remat(unit, policy=REMAT_POLICIES[self.remat])
    for i in range(self.num_units):
      x = unit(
        self.width,
        1 if i else self.stride,
        self.dtype,
        self.standardization,
        name=self.unit_name(i),
      )(x)
    return x
