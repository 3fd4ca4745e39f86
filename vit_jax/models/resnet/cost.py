"""FLOPs and parameters of ResNets and of hybrids' stems, in closed form.

Counted as the ViT paper's tables do: matrix products and convolutions only, so
that normalisation, softmax and activations are left out. Convolutions are
counted without the multiplications by the zeros of their padding.
"""

from collections.abc import Sequence

from vit_jax.config import schema
from vit_jax.models.resnet import sizes


def forward_flops(model: schema.Model, num_classes: int | None) -> int:
  """FLOPs of one image's forward pass, two per multiply-add."""
  size = sizes.resnet(model)
  return resnet_forward_flops(
    blocks=size.blocks,
    width=size.width,
    image_size=model.image_size,
    num_classes=num_classes,
  )


def resnet_forward_flops(
  *,
  blocks: Sequence[int],
  width: int,
  image_size: int,
  num_classes: int | None,
) -> int:
  """FLOPs of one image's forward pass through a ResNet of bottlenecks.

  Args:
    blocks: Units of each stage.
    width: Channels of the root.
    image_size: Side of the image, pixels.
    num_classes: Outputs of the linear head; None: no head.
  """
  macs, _, channels = backbone_macs(image_size, blocks, width, same=False)
  return 2 * (macs + channels * (num_classes or 0))


def num_params(model: schema.Model, num_classes: int | None) -> int:
  """Parameters of the network, its head's included."""
  size = sizes.resnet(model)
  total, channels = backbone_params(size.blocks, size.width, norm_first=True)
  return total + (channels + 1) * (num_classes or 0)


def backbone_macs(
  side: int, blocks: Sequence[int], width: int, *, same: bool
) -> tuple[int, int, int]:
  """A root and stages of bottlenecks.

  Args:
    side: Side of the image, pixels.
    blocks: Units of each stage.
    width: Channels of the root.
    same: True pads like 'SAME', False half a kernel on each side.

  Returns:
    Multiply-adds, side and channels of the resulting map.
  """
  macs, side = _convolution(side, 3, width, kernel=7, stride=2, same=same)
  side = -(-side // 2)  # The pooling.
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


def backbone_params(
  blocks: Sequence[int], width: int, *, norm_first: bool
) -> tuple[int, int]:
  """A root and stages of bottlenecks, convolutions without biases.

  Args:
    blocks: Units of each stage.
    width: Channels of the root.
    norm_first: True if normalisation and activation precede each convolution,
      as in Big Transfer; False if they follow it, as in hybrids.

  Returns:
    Parameters, and channels of the result.
  """
  total, channels = 7 * 7 * 3 * width, width
  if not norm_first:
    total += 2 * width
  for stage, num_units in enumerate(blocks):
    inner, outer = width * 2**stage, 4 * width * 2**stage
    for unit in range(num_units):
      total += channels * inner + 9 * inner**2 + inner * outer
      total += 4 * inner + 2 * (channels if norm_first else outer)
      if channels != outer or (stage and not unit):
        total += channels * outer + (0 if norm_first else 2 * outer)
      channels = outer
  return total + (2 * channels if norm_first else 0), channels


def _convolution(
  side: int, inputs: int, outputs: int, *, kernel: int, stride: int, same: bool
) -> tuple[int, int]:
  """Multiply-adds of a convolution over a square map, and the result's side."""
  result = -(-side // stride)
  padding = kernel // 2
  if same:  # What is uneven goes to the far side.
    padding = max(0, (result - 1) * stride + kernel - side) // 2
  taps = sum(
    0 <= place * stride + tap - padding < side
    for place in range(result)
    for tap in range(kernel)
  )
  return taps**2 * inputs * outputs, result
