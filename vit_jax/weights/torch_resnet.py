"""The parameters of PyTorch's ResNets beside ours: BiT, and hybrids' stems."""

import dataclasses

from vit_jax.config import sizes
from vit_jax.weights.torch_layout import Pair, conv, dense, norm, pointwise


@dataclasses.dataclass(frozen=True)
class Names:
  """What a library calls the parts of a BiT.

  Attributes:
    root: the first convolution.
    unit: with places for the numbers of stage and unit, from 0.
    head: the classifier.
    head_is_conv: whether it is a convolution of one pixel.
  """

  root: str
  unit: str
  head: str
  head_is_conv: bool


def bit_pairs(
  size: sizes.ResNetSize, num_classes: int | None, names: Names
) -> list[Pair]:
  """Every parameter of a pre-activation ResNet."""
  found = conv(names.root, "root_conv", 7, 3, size.width, bias=False)
  channels = size.width
  for stage, num_units in enumerate(size.blocks):
    width = size.width * 2**stage
    for unit in range(num_units):
      theirs = names.unit.format(stage, unit)
      ours = f"block{stage + 1}/unit{unit + 1:02d}"
      for number, letter, kernel, inputs, outputs in (
        (1, "a", 1, channels, width),
        (2, "b", 3, width, width),
        (3, "c", 1, width, 4 * width),
      ):
        found += norm(f"{theirs}.norm{number}", f"{ours}/{letter}_norm", inputs)
        found += conv(
          f"{theirs}.conv{number}",
          f"{ours}/{letter}",
          kernel,
          inputs,
          outputs,
          bias=False,
        )
      if unit == 0:
        found += conv(
          f"{theirs}.downsample.conv",
          f"{ours}/proj",
          1,
          channels,
          4 * width,
          bias=False,
        )
      channels = 4 * width
  found += norm("norm", "norm", channels)
  if num_classes is not None:
    head = pointwise if names.head_is_conv else dense
    found += head(names.head, "head", channels, num_classes)
  return found


def stem_pairs(
  blocks: tuple[int, ...], width: int, prefix: str
) -> tuple[list[Pair], int]:
  """Every parameter of a hybrid's post-activation stem, as timm names them.

  Args:
    blocks: units of each stage; (): the root alone.
    width: channels of the root.
    prefix: of all names.

  Returns:
    The pairs, and the channels of the maps that come out.
  """
  root = f"{prefix}stem." if blocks else prefix
  found = conv(f"{root}conv", "conv_root", 7, 3, width, bias=False)
  found += norm(f"{root}norm", "gn_root", width)
  channels = width
  for stage, num_units in enumerate(blocks):
    hidden = width * 2**stage
    for unit in range(num_units):
      theirs = f"{prefix}stages.{stage}.blocks.{unit}"
      ours = f"block{stage + 1}/unit{unit + 1}"
      layers = [
        ("conv1", "norm1", "1", 1, channels, hidden),
        ("conv2", "norm2", "2", 3, hidden, hidden),
        ("conv3", "norm3", "3", 1, hidden, 4 * hidden),
      ]
      if unit == 0:
        names = ("downsample.conv", "downsample.norm", "_proj")
        layers.append((*names, 1, channels, 4 * hidden))
      for kernel_name, norm_name, suffix, kernel, inputs, outputs in layers:
        found += conv(
          f"{theirs}.{kernel_name}",
          f"{ours}/conv{suffix}",
          kernel,
          inputs,
          outputs,
          bias=False,
        )
        found += norm(f"{theirs}.{norm_name}", f"{ours}/gn{suffix}", outputs)
      channels = 4 * hidden
  return found, channels
