"""The decoder of FCMAE. facebookresearch/ConvNeXt-V2, models/fcmae.py."""

import flax.linen as nn
from jaxtyping import Array, Float

from vit_jax.models import stages
from vit_jax.models.convnext import visible_patches
from vit_jax.models.convnext.network import INIT, Block
from vit_jax.models.layers import pointwise
from vit_jax.models.layers.layer_scale import ScaledDense


class Decoder(nn.Module):
  """Predicts the pixels of all patches from the maps of the visible ones.

  Attributes:
    width: Channels of the decoder.
    depth: Number of blocks.
    num_outputs: Number of values predicted per patch.

  The other attributes are as in the encoder, a `ConvNeXt`.
  """

  width: int
  depth: int
  num_outputs: int
  version: int
  layer_norm_eps: float
  dtype: str
  depthwise: str

  @nn.compact
  def __call__(
    self,
    x: Float[Array, "b v 1 c"],
    chosen: Float[Array, "b v rows columns"],
  ) -> Float[Array, "b n outputs"]:
    """Returns predictions for the patches, row by row, in the compute dtype.

    Args:
      x: The encoder's last map of the visible patches.
      chosen: Their places, as returned by `visible_patches.choose`.
    """
    mask_token = self.param(
      "mask_token", nn.initializers.normal(0.02), (1, 1, 1, self.width)
    ).astype(self.dtype)
    x = self._dense("embedding", self.width)(x.astype(self.dtype))
    is_hidden = 1 - chosen.sum(axis=1)[..., None].astype(self.dtype)
    x = visible_patches.spread(x, chosen) + is_hidden * mask_token
    for i in range(self.depth):
      x = Block(
        self.version,
        self.layer_norm_eps,
        self.dtype,
        0.0,
        self.depthwise,
        name=stages.block_name(i),
      )(x)
    x = self._dense("prediction", self.num_outputs)(x)
    return x.reshape(len(x), -1, self.num_outputs)

  def _dense(self, name, features):
    return ScaledDense(
      features,
      self.dtype,
      INIT,
      dot_general=pointwise.dot_general,
      name=name,
    )
