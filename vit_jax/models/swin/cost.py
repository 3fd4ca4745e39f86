"""FLOPs of Swin Transformers, in closed form.

Counted as in the papers' tables: convolutions and matrix products only,
including places that pad a map to whole windows. Version 2's position biases
are computed once for all images and are not counted.
"""

from vit_jax.config import schema
from vit_jax.models.swin import sizes


def forward_flops(model: schema.Model, num_classes: int | None) -> int:
  """FLOPs of one image's forward pass, two per multiply-add."""
  size = sizes.swin(model)
  sides = size.sides(model.image_size)
  macs = sides[0] ** 2 * size.patch_size**2 * 3 * size.width
  width = size.width
  for stage, (depth, side, window) in enumerate(
    zip(size.depths, sides, size.windows(model.image_size), strict=True)
  ):
    width = size.widths()[stage]
    padded = -(-side // window) * window
    attention = padded**2 * (4 * width**2 + 2 * window**2 * width)
    mlp = side**2 * 2 * sizes.EXPANSION * width**2
    macs += depth * (attention + mlp)
    if stage + 1 < len(sides):
      macs += sides[stage + 1] ** 2 * 8 * width**2
  return 2 * (macs + width * (num_classes or 0))
