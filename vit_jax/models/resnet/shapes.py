"""Names and shapes of every parameter of a BiT ResNet."""

import math

from vit_jax.config import schema
from vit_jax.models.detection import Shape
from vit_jax.models.resnet import sizes


def num_params(model: schema.Model, num_classes: int | None) -> int:
  """Number of parameters of the network, including its head."""
  return sum(map(math.prod, shapes(model, num_classes).values()))


def shapes(model: schema.Model, num_classes: int | None) -> dict[str, Shape]:
  """Shapes of all parameters, {path: shape}."""
  size = sizes.resnet(model)
  wanted: dict[str, Shape] = {"root_conv/kernel": (7, 7, 3, size.width)}
  channels = size.width

  def norm(name: str, features: int) -> None:
    wanted[f"{name}/scale"] = wanted[f"{name}/bias"] = (features,)

  for stage, num_units in enumerate(size.blocks):
    hidden = size.width * 2**stage
    for unit in range(num_units):
      name = f"block{stage + 1}/unit{unit + 1:02d}"
      wanted[f"{name}/a/kernel"] = (1, 1, channels, hidden)
      wanted[f"{name}/b/kernel"] = (3, 3, hidden, hidden)
      wanted[f"{name}/c/kernel"] = (1, 1, hidden, 4 * hidden)
      if unit == 0:
        wanted[f"{name}/proj/kernel"] = (1, 1, channels, 4 * hidden)
      norm(f"{name}/a_norm", channels)
      norm(f"{name}/b_norm", hidden)
      norm(f"{name}/c_norm", hidden)
      channels = 4 * hidden
  norm("norm", channels)
  if num_classes:
    wanted["head/kernel"] = (channels, num_classes)
    wanted["head/bias"] = (num_classes,)
  return wanted
