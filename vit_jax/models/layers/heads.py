"""The classifier on top of the pooled feature."""

import flax.linen as nn
import jax.numpy as jnp
from flax.typing import Initializer
from jaxtyping import Array, Float

# Collection in which a network with several heads sows the logits of each:
# "class", for the labels, and "distillation", for a teacher.
HEADS = "heads"


class LinearHead(nn.Module):
  """x W + b with float32 results.

  The product is computed in `dtype`, but its sums are not rounded to it:
  bfloat16 cannot distinguish a logit of -10 from one of -10.03.
  """

  num_classes: int
  bias_init: float
  dtype: str
  kernel_init: Initializer = nn.initializers.zeros

  @nn.compact
  def __call__(self, x: Float[Array, "*b d"]) -> Float[Array, "*b classes"]:
    shape = (x.shape[-1], self.num_classes)
    kernel = self.param("kernel", self.kernel_init, shape)
    bias = self.param(
      "bias", nn.initializers.constant(self.bias_init), (self.num_classes,)
    )
    logits = jnp.matmul(
      x, kernel.astype(self.dtype), preferred_element_type=jnp.float32
    )
    logits = logits + bias.reshape((1,) * (x.ndim - 1) + (-1,))
    # As `encoder_block.BETWEEN_BLOCKS`: the kernel is gathered, not its input.
    return nn.with_logical_constraint(
      logits, ("batch", *["tokens"] * (x.ndim - 2), "classes")
    )
