"""Names and shapes of every parameter of a Swin Transformer."""

import math

from vit_jax.config import schema
from vit_jax.models.detection import Shape
from vit_jax.models.swin import sizes


def num_params(model: schema.Model, num_classes: int | None) -> int:
  """Number of parameters of the network, including its head."""
  return sum(map(math.prod, shapes(model, num_classes).values()))


def shapes(model: schema.Model, num_classes: int | None) -> dict[str, Shape]:
  """Shapes of all parameters, {path: shape}."""
  size = sizes.swin(model)
  is_first_version = size.version == 1
  wanted: dict[str, Shape] = {}

  def norm(name: str, features: int) -> None:
    wanted[f"{name}/scale"] = wanted[f"{name}/bias"] = (features,)

  def weights(name: str, *shape: int, has_bias: bool = True) -> None:
    wanted[f"{name}/kernel"] = shape
    if has_bias:
      wanted[f"{name}/bias"] = shape[-1:]

  weights("stem/conv", *(size.patch_size,) * 2, 3, size.width)
  norm("stem/norm", size.width)
  widths, windows = size.widths(), size.windows(model.image_size)
  for stage, (depth, heads, width, window) in enumerate(
    zip(size.depths, size.num_heads, widths, windows, strict=True), 1
  ):
    for block in range(1, depth + 1):
      name = f"stage{stage}/block{block:02d}"
      attention = f"{name}/attention"
      weights(f"{attention}/queries", width, width)
      weights(f"{attention}/keys", width, width, has_bias=is_first_version)
      weights(f"{attention}/values", width, width)
      weights(f"{attention}/output", width, width)
      if is_first_version:
        wanted[f"{attention}/positions"] = ((2 * window - 1) ** 2, heads)
      else:
        hidden = sizes.POSITION_WIDTH
        weights(f"{attention}/position_hidden", 2, hidden)
        weights(f"{attention}/position_bias", hidden, heads, has_bias=False)
        wanted[f"{attention}/log_scale"] = (heads,)
      norm(f"{name}/attention_norm", width)
      weights(f"{name}/expand", width, sizes.EXPANSION * width)
      weights(f"{name}/project", sizes.EXPANSION * width, width)
      norm(f"{name}/mlp_norm", width)
    if stage < len(size.depths):
      merge = f"stage{stage}/merge"
      norm(f"{merge}/norm", (4 if is_first_version else 2) * width)
      weights(f"{merge}/reduction", 4 * width, 2 * width, has_bias=False)
  norm("norm", widths[-1])
  if num_classes:
    weights("head", widths[-1], num_classes)
  return wanted
