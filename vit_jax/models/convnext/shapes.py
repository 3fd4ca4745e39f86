"""Names and shapes of every parameter of a ConvNeXt."""

import math

from vit_jax.config import schema
from vit_jax.models.convnext import sizes
from vit_jax.models.detection import Shape


def num_params(model: schema.Model, num_classes: int | None) -> int:
  """Number of parameters of the network, including its head."""
  return sum(map(math.prod, shapes(model, num_classes).values()))


def shapes(model: schema.Model, num_classes: int | None) -> dict[str, Shape]:
  """Shapes of all parameters, {path: shape}."""
  size = sizes.convnext(model)
  wanted: dict[str, Shape] = {}

  def norm(name: str, features: int) -> None:
    wanted[f"{name}/scale"] = wanted[f"{name}/bias"] = (features,)

  def weights(name: str, *shape: int) -> None:
    wanted[f"{name}/kernel"], wanted[f"{name}/bias"] = shape, shape[-1:]

  weights("stem/conv", *(size.stem_stride,) * 2, 3, size.widths[0])
  norm("stem/norm", size.widths[0])
  channels = size.widths[0]
  for stage, (depth, width) in enumerate(
    zip(size.depths, size.widths, strict=True), 1
  ):
    if stage > 1:
      norm(f"stage{stage}/downsample/norm", channels)
      weights(f"stage{stage}/downsample/conv", 2, 2, channels, width)
    hidden = sizes.EXPANSION * width
    for block in range(1, depth + 1):
      name = f"stage{stage}/block{block:02d}"
      weights(f"{name}/depthwise", sizes.KERNEL, sizes.KERNEL, 1, width)
      norm(f"{name}/norm", width)
      weights(f"{name}/expand", width, hidden)
      weights(f"{name}/project", hidden, width)
      if size.version == 1:
        wanted[f"{name}/gamma"] = (width,)
      else:
        norm(f"{name}/grn", hidden)
    channels = width
  norm("norm", channels)
  if num_classes:
    weights("head", channels, num_classes)
  return wanted
