"""FLOPs of Pyramid Vision Transformers, in closed form.

Convolutions and matrix products only, including multiplications by the zeros
around a map.
"""

from vit_jax.config import schema
from vit_jax.models.pvt import sizes


def forward_flops(model: schema.Model, num_classes: int | None) -> int:
  """FLOPs of one image's forward pass, two per multiply-add."""
  size = sizes.pvt(model)
  macs, channels, kernel = 0, 3, sizes.STEM_KERNEL
  for depth, width, reduction, expansion, side in zip(
    size.depths,
    size.widths,
    size.reductions,
    size.expansions,
    size.sides(model.image_size),
    strict=True,
  ):
    places = side**2
    macs += places * kernel**2 * channels * width
    if size.linear_attention:
      keys = sizes.POOLED**2
      reducing = keys * width**2
    else:
      keys = (side // reduction) ** 2
      reducing = keys * reduction**2 * width**2 if reduction > 1 else 0
    projecting = 2 * (places + keys) * width**2
    attending = 2 * places * keys * width
    hidden = expansion * width
    mlp = places * hidden * (2 * width + sizes.MLP_KERNEL**2)
    macs += depth * (reducing + projecting + attending + mlp)
    channels, kernel = width, sizes.KERNEL
  return 2 * (macs + channels * (num_classes or 0))
