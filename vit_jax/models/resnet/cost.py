"""FLOPs of ResNets and of hybrids' stems, in closed form.

Counted as in the ViT paper's tables: matrix products and convolutions only,
without normalisation, softmax and activations. Convolutions exclude
multiplications by the zeros of their padding.
"""

from collections.abc import Sequence

from vit_jax.config import schema
from vit_jax.models.resnet import sizes


def forward_flops(model: schema.Model, num_classes: int | None) -> int:
  """FLOPs of one image's forward pass, two per multiply-add."""
  size = sizes.resnet(model)
  macs, _, channels = backbone_macs(
    model.image_size, size.blocks, size.width, same=False
  )
  return 2 * (macs + channels * (num_classes or 0))


def backbone_macs(
  side: int, blocks: Sequence[int], width: int, *, same: bool
) -> tuple[int, int, int]:
  """Counts a root and stages of bottlenecks.

  Args:
    side: Side of the image, pixels.
    blocks: Units of each stage.
    width: Channels of the root.
    same: True pads like 'SAME', False by half a kernel on each side.

  Returns:
    Multiply-adds, and the side and channels of the resulting map.
  """
  macs, side = _convolution(side, 3, width, kernel=7, stride=2, same=same)
  side = -(-side // 2)  # Pooling.
  channels = width
  for stage, num_units in enumerate(blocks):
    inner, outer = width * 2**stage, 4 * width * 2**stage
    for unit in range(num_units):
      stride = 2 if stage and not unit else 1
      bottleneck = [(channels, inner, 1, 1), (inner, inner, 3, stride)]
      if stride > 1 or channels != outer:
        projection = _convolution(
          side, channels, outer, kernel=1, stride=stride, same=same
        )
        macs += projection[0]
      for inputs, outputs, kernel, step in (*bottleneck, (inner, outer, 1, 1)):
        more, side = _convolution(
          side, inputs, outputs, kernel=kernel, stride=step, same=same
        )
        macs += more
      channels = outer
  return macs, side, channels


def _convolution(
  side: int, inputs: int, outputs: int, *, kernel: int, stride: int, same: bool
) -> tuple[int, int]:
  """Multiply-adds of a convolution over a square map, and the result's side."""
  result = -(-side // stride)
  padding = kernel // 2
  if same:  # Odd padding goes to the far side.
    padding = max(0, (result - 1) * stride + kernel - side) // 2
  taps = sum(
    0 <= place * stride + tap - padding < side
    for place in range(result)
    for tap in range(kernel)
  )
  return taps**2 * inputs * outputs, result
