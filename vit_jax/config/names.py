"""Networks by name: 'ViT-B/16', 'R50+B/16', 'BiT-R50x1'."""

from collections.abc import Iterator

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.suggestions import did_you_mean


def known() -> list[str]:
  """Published names by family and size; other sizes have names too."""
  return [name for family in _families() for name in family.names]


def find(name: str) -> schema.Model:
  """Returns the architecture of this name, all other keys at their defaults.

  'B/16' stands for 'ViT-B/16', 'R50x1' for 'BiT-R50x1', and 'R50x1+ViT-B/16'
  for 'R50+B/16'; any patch size and width factor is accepted.

  Raises:
    UserError: No network has this name; the message names the nearest one.
  """
  for family in _families():
    model = family.find(name)
    if model is not None:
      try:
        family.size(model)
      except UserError:
        continue
      # A key that is set is one that an experiment file passes on.
      return model.model_copy(update={"name": model.name})
  near = did_you_mean(name, known(), 0.0)
  raise UserError(
    f"No model is named '{name}'. Did you mean '{near}'?"
    " vit_jax.list_models() has all names."
  )


def describe(model: schema.Model) -> str:
  """'ViT-B/16 at 224 pixels', or the sizes of a network without a name."""
  family = registry.FAMILIES.get(model.name)
  return f"{family.describe(model)} at {model.image_size} pixels"


def _families() -> Iterator:
  return map(registry.FAMILIES.get, registry.FAMILIES.names())
