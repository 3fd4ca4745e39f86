"""LayerScale in the weights of a branch's last product.

[CaiT], arXiv 2103.17239, equation 2, has a learned factor for each channel of a
branch's result. Factors of the weights and the bias give the same result.
"""

from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

Parameter = Array | np.ndarray


class ScaledDense(nn.Module):
  """A dense layer like `nn.Dense` whose result may be scaled.

  The attributes are those of `nn.Dense`.
  """

  features: int
  dtype: str
  kernel_init: nn.initializers.Initializer
  bias_init: nn.initializers.Initializer = nn.initializers.zeros
  dot_general: Callable[..., Array] = jax.lax.dot_general

  @nn.compact
  def __call__(
    self, x: Float[Array, "*b d"], scale: Float[Parameter, " k"] | None = None
  ) -> Float[Array, "*b k"]:
    shape = (x.shape[-1], self.features)
    kernel = self.param("kernel", self.kernel_init, shape, jnp.float32)
    bias = self.param("bias", self.bias_init, shape[1:], jnp.float32)
    kernel, bias = scaled(kernel, bias, scale)
    bias = bias.astype(self.dtype).reshape((1,) * (x.ndim - 1) + (-1,))
    last = (((x.ndim - 1,), (0,)), ((), ()))
    x, kernel = x.astype(self.dtype), kernel.astype(self.dtype)
    return self.dot_general(x, kernel, last) + bias


def scaled(
  kernel: Float[Parameter, "*m d"],
  bias: Float[Parameter, " d"],
  scale: Float[Parameter, " d"] | None,
) -> tuple[Float[Parameter, "*m d"], Float[Parameter, " d"]]:
  """Returns the parameters of (x W + b) * scale: W * scale and b * scale.

  The gradient of the scale is then a sum over the gradient of W. For a scaled
  result it would be a sum over all tokens, for which the result is kept.
  """
  if scale is None:
    return kernel, bias
  # Parameters may be of 16 bits, as some checkpoints store them.
  scale = jnp.asarray(scale, jnp.promote_types(scale.dtype, jnp.float32))
  return kernel * scale.reshape((1,) * (kernel.ndim - 1) + (-1,)), bias * scale
