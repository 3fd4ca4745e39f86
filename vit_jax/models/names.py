"""Checked lookup of architectures by name. Imports neither jax nor flax."""

import fnmatch

from vit_jax.config import aliases, names, schema
from vit_jax.models import build


def list_models(pattern: str = "*") -> list[str]:
  """Lists the names that match a shell pattern, such as '*B*16*' or '*b16*'.

  A lower-case pattern also matches upper case and may omit the slash.
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
  """`config.model` for a name such as 'ViT-B/16', 'R50+B/16' or 'BiT-R50x1'.

  Args:
    name: Name from `list_models`, or one with another patch size or width
      factor, or the name of such a network in timm, Hugging Face or
      torchvision.
    num_classes: Outputs of the head.
    image_size: Side of the square input, pixels. None for the size in the name,
      as in 'vit_base_patch16_384', or 224.

  Raises:
    UserError: The name is unknown (the closest is suggested), or the image size
      does not fit the patch size.
  """
  name, said = aliases.find(name) or (name, {})
  keys = {"image_size": 224, **said, "num_classes": num_classes}
  if image_size is not None:
    keys["image_size"] = image_size
  model = names.find(name).model_copy(update=keys)
  build.check(model)
  return model
