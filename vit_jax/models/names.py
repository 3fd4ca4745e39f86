"""Architectures by name, checked. Imports neither jax nor flax."""

import fnmatch

from vit_jax.config import aliases, names, schema
from vit_jax.models import build


def list_models(pattern: str = "*") -> list[str]:
  """Names that match a shell pattern, such as '*B*16*' or '*b16*'.

  A pattern in lower case finds upper case too, and may leave out the slash.
  """
  return [name for name in names.known() if _matches(name, pattern)]


def _matches(name: str, pattern: str) -> bool:
  forms = [name]
  if pattern == pattern.lower():
    forms += [name.lower(), name.lower().replace("/", "")]
  return any(fnmatch.fnmatchcase(form, pattern) for form in forms)


def resolve(
  name: str, *, num_classes: int | None = None, image_size: int | None = None
) -> schema.Model:
  """`config.model` of a name such as 'ViT-B/16', 'R50+B/16' or 'BiT-R50x1'.

  Args:
    name: Name from `list_models`, or one with another patch size or width
      factor; or timm's, Hugging Face's or torchvision's name of such a network.
    num_classes: Outputs of the head.
    image_size: Side of the square input, pixels. None: what the name says, as
      'vit_base_patch16_384' does, or 224.

  Raises:
    UserError: The name is unknown (the nearest is named), or the image's size
      does not suit the patch.
  """
  name, said = aliases.find(name) or (name, {})
  keys = {"image_size": 224, **said, "num_classes": num_classes}
  if image_size is not None:
    keys["image_size"] = image_size
  model = names.find(name).model_copy(update=keys)
  build.check(model)
  return model
