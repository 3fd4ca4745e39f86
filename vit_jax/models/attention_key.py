"""The key `attention` of a network, or of the part that has it."""

from vit_jax import registry
from vit_jax.config import schema


def value(model: schema.Model) -> str | None:
  """The implementation of attention; None if the network has no choice."""
  found = _find(model)
  return found and found[1]


def name(model: schema.Model) -> str:
  """Full name: 'model.attention', or 'model.image.attention' for two towers.

  Raises:
    ValueError: The network has no such key.
  """
  found = _find(model)
  if found is None:
    raise ValueError(f"{model.name!r} has no choice of attention.")
  return found[0]


def changed(config: schema.Config, attention: str) -> schema.Config:
  """`config` with another implementation of attention."""
  model = config.model.updated(attention=attention)
  return config.model_copy(update={"model": model})


def _find(model: schema.Model) -> tuple[str, str] | None:
  """The key's full name and its value."""
  if "attention" in type(model).model_fields:
    return "model.attention", model.attention
  for part, record in registry.FAMILIES.get(model.name).parts.items():
    section = record.take(model)
    if "attention" in type(section).model_fields:
      return f"model.{part}.attention", section.attention
  return None
