"""Checkpoints that provide part of a network, such as one of two towers."""

import dataclasses
from collections.abc import Collection

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.weights import stacking
from vit_jax.weights.contract import Weights

_IMAGE = "image"
_STACKED = "Transformer/encoderblock/"
_HEAD = ("head", "head_dist", "pre_logits")


def section(
  model: schema.Model, part: str, found: schema.Model
) -> schema.Model:
  """Returns `model` with a checkpoint's network as one of its parts.

  Args:
    model: Section `model` of a network that has the part.
    part: Name of the part.
    found: Section of the checkpoint: that of the part alone, or of a network
      with the same part.
  """
  whole = registry.FAMILIES.get(found.name).parts.get(part)
  if whole is not None:
    found = whole.take(found)
  headless = found.updated(num_classes=None, representation_size=None)
  return registry.FAMILIES.get(model.name).parts[part].put(model, headless)


def image_section(found: schema.Model, model: schema.Model) -> schema.Model:
  """Returns the section of a checkpoint's image tower for a single network.

  Args:
    found: Section of the checkpoint; returned as is unless it has two towers.
    model: Section `model` of the network; if it has two towers too, `found` is
      returned as is.
  """
  tower = registry.FAMILIES.get(found.name).parts.get(_IMAGE)
  if tower is None or registry.FAMILIES.get(model.name).parts:
    return found
  return tower.take(found)


def image_weights(found: Weights, model: schema.Model) -> Weights:
  """Returns the parameters of `image_section`, with a note if it is a tower."""
  section = image_section(found.model, model)
  if section is found.model:
    return found
  note = "The image tower is used; everything else is left out."
  return dataclasses.replace(
    found,
    model=section,
    params=found.params[_IMAGE],
    assumed=(*found.assumed, note),
  )


def weights(
  found: Weights, model: schema.Model, part: str, paths: Collection[str]
) -> Weights:
  """Returns a checkpoint's parameters as those of a part, without the head.

  Args:
    found: Checkpoint, as for `section`.
    model: Section `model` of the network that has the part.
    part: Name of the part.
    paths: Paths of all parameters of that network.
  """
  params = found.params
  if part in registry.FAMILIES.get(found.model.name).parts:
    params = params[part]
  params = {name: tree for name, tree in params.items() if name not in _HEAD}
  if any(path.startswith(f"{part}/{_STACKED}") for path in paths):
    params = stacking.stack_layers(params)
  else:
    params = stacking.unstack_layers(params)
  return dataclasses.replace(
    found,
    model=section(model, part, found.model),
    params={part: params},
    class_names=None,
  )
