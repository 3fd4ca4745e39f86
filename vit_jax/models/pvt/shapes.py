"""Names and shapes of every parameter of a Pyramid Vision Transformer."""

import math

from vit_jax.config import schema
from vit_jax.models.detection import Shape
from vit_jax.models.pvt import sizes


def num_params(model: schema.Model, num_classes: int | None) -> int:
  """Number of parameters of the network, including its head."""
  return sum(map(math.prod, shapes(model, num_classes).values()))


def shapes(model: schema.Model, num_classes: int | None) -> dict[str, Shape]:
  """Shapes of all parameters, {path: shape}."""
  size = sizes.pvt(model)
  wanted: dict[str, Shape] = {}

  def norm(name: str, features: int) -> None:
    wanted[f"{name}/scale"] = wanted[f"{name}/bias"] = (features,)

  def weights(name: str, *shape: int) -> None:
    wanted[f"{name}/kernel"], wanted[f"{name}/bias"] = shape, shape[-1:]

  channels, kernel = 3, sizes.STEM_KERNEL
  for stage, (depth, width, reduction, expansion) in enumerate(
    zip(
      size.depths, size.widths, size.reductions, size.expansions, strict=True
    ),
    1,
  ):
    weights(f"stage{stage}/embed/conv", kernel, kernel, channels, width)
    norm(f"stage{stage}/embed/norm", width)
    side = 1 if size.linear_attention else reduction
    for block in range(1, depth + 1):
      name = f"stage{stage}/block{block:02d}"
      attention = f"{name}/reduced_attention"
      for part in ("queries", "keys", "values", "output"):
        weights(f"{attention}/{part}", width, width)
      if size.linear_attention or reduction > 1:
        weights(f"{attention}/reduce", side, side, width, width)
        norm(f"{attention}/reduce_norm", width)
      norm(f"{name}/attention_norm", width)
      norm(f"{name}/mlp_norm", width)
      hidden = expansion * width
      weights(f"{name}/mlp/expand", width, hidden)
      weights(f"{name}/mlp/depthwise", *(sizes.MLP_KERNEL,) * 2, 1, hidden)
      weights(f"{name}/mlp/project", hidden, width)
    norm(f"stage{stage}/norm", width)
    channels, kernel = width, sizes.KERNEL
  if num_classes:
    weights("head", channels, num_classes)
  return wanted
