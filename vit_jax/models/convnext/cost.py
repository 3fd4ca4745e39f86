"""FLOPs of ConvNeXts, in closed form.

Counted as in the papers' tables: convolutions and matrix products only,
including multiplications by the zeros around a map.
"""

from vit_jax.config import schema
from vit_jax.models.convnext import sizes


def forward_flops(model: schema.Model, num_classes: int | None) -> int:
  """FLOPs of one image's forward pass, two per multiply-add."""
  size = sizes.convnext(model)
  side = model.image_size // size.stem_stride
  macs = side**2 * size.stem_stride**2 * 3 * size.widths[0]
  channels = size.widths[0]
  for stage, (depth, width) in enumerate(
    zip(size.depths, size.widths, strict=True)
  ):
    if stage:
      side //= 2
      macs += side**2 * 4 * channels * width
    depthwise = sizes.KERNEL**2 * width
    dense = 2 * sizes.EXPANSION * width**2
    macs += side**2 * depth * (depthwise + dense)
    channels = width
  return 2 * (macs + channels * (num_classes or 0))
