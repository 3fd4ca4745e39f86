"""Architectures by name, checked. Imports neither jax nor flax."""

import fnmatch

from vit_jax.config import names, schema
from vit_jax.models import build


def list_models(pattern: str = "*") -> list[str]:
  """Names that match a shell pattern, such as '*B*16*'; upper case counts."""
  return [name for name in names.known() if fnmatch.fnmatchcase(name, pattern)]


def resolve(
  name: str, *, num_classes: int | None = None, image_size: int = 224
) -> schema.Model:
  """`config.model` of a name such as 'ViT-B/16', 'R50+B/16' or 'BiT-R50x1'.

  Args:
    name: Name from `list_models`, or one with another patch size or width
      factor.
    num_classes: Outputs of the head.
    image_size: Side of the square input, pixels.

  Raises:
    UserError: The name is unknown (the nearest is named), or the image's size
      does not suit the patch.
  """
  model = names.find(name).model_copy(
    update={"num_classes": num_classes, "image_size": image_size}
  )
  build.check(model)
  return model
