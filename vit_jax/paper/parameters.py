"""Numbers of parameters in closed form."""

from vit_jax import registry
from vit_jax.config import names, schema


def count(model: str | schema.Model, *, num_classes: int | None = 1000) -> int:
  """Parameters of a network, its head's included.

  Args:
    model: A name such as 'ViT-B/16', 'R50+B/16' or 'BiT-R50x1', at 224 px; or
      the section of a config. Position embeddings are learned, one for each
      token and added at the stem, or there are none.
    num_classes: Outputs of the head; None is no head.

  Raises:
    UserError: There is no model of this name.
  """
  if isinstance(model, str):
    model = names.find(model)
  return registry.FAMILIES.get(model.name).num_params(model, num_classes)
