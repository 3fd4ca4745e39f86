"""Keys of `config.model` that change what equal parameters compute.

Shapes do not determine the form of the GELU, the pooling of tokens or the
normalisation of pixels. A network with values other than those used in training
gives wrong results without an error, so these keys are compared.
"""

from collections.abc import Collection, Mapping
from typing import Any

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.errors import UserError

# Keys of training and of the head, which depends on the classes.
OF_TRAINING = (
  "num_classes",
  "representation_size",
  "head_bias_init",
  "pos_embedding_stddev",
  "pos_embedding_init",
  "weight_init",
  "embedding_stddev",
  "scale_init",
  "dropout_rate",
  "stochastic_depth_rate",
  "stochastic_depth",
  "stochastic_depth_group",
  "dtype",
  "head_dtype",
  "softmax_dtype",
  "attention",
  "depthwise",
  "scan_layers",
  "remat",
)
# A variant stands for all its numbers. Shapes of parameters determine these,
# except those that a family lists in `Family.unseen`.
OF_VARIANT = (
  "name",
  "width",
  "depth",
  "num_heads",
  "mlp_dim",
  "stem_blocks",
  "stem_width",
  "blocks",
  "depths",
  "widths",
  "stem_stride",
  "version",
)
# Shapes determine these as well. `image_size` may change, and with it the
# windows of a Swin if shapes determine them, and whether pixels are left over.
_OF_SHAPES = (
  "variant",
  "patch_size",
  "cls_token",
  "cls_position",
  "registers",
  "distillation",
  "qkv_bias",
  "key_bias",
  "patch_bias",
  "pre_norm",
  "vocab_size",
  "length",
  "embedding_size",
  "image_projection",
  "text_projection",
  "bias_init",
  "layer_scale",
  "mlp",
  "mlp_norm",
  "expansions",
  "reductions",
)
_OF_IMAGES = (
  "image_size",
  "drop_remainder",
  "window_size",
  "pad_before_shift",
)


def told(
  found: schema.Model, wanted: schema.Model
) -> dict[str, tuple[Any, Any]]:
  """Returns the function-changing keys that a checkpoint's file states.

  Args:
    found: Section of the checkpoint; unset keys are unknown.
    wanted: Section of the network.

  Returns:
    {key: (value there, value here)}; keys of a part of the network are named
    like 'image.pool'. Parts of different families have none, as their
    parameters do not fit.
  """
  if type(found) is not type(wanted):
    return {}
  keys = _told(found, wanted, _unseen(found, wanted))
  parts = registry.FAMILIES.get(found.name).parts
  for name in type(found).model_fields:
    there, here = getattr(found, name), getattr(wanted, name)
    if isinstance(there, schema.Section) and type(there) is type(here):
      # The size of a part may depend on keys of the whole.
      take = parts[name].take if name in parts else None
      unseen = _unseen(take(found), take(wanted)) if take else ({}, {})
      inner = _told(there, here, unseen).items()
      keys |= {f"{name}.{key}": values for key, values in inner}
  return keys


def _unseen(
  found: schema.Model, wanted: schema.Model
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
  unseen = registry.FAMILIES.get(found.name).unseen
  return unseen(found, wanted), unseen(wanted, wanted)


def _told(
  found: schema.Section,
  wanted: schema.Section,
  unseen: tuple[Mapping[str, Any], Mapping[str, Any]],
) -> dict[str, tuple[Any, Any]]:
  """Like `told`, without keys of parts; `unseen` is that of both sections."""
  others = {*OF_TRAINING, *OF_VARIANT, *_OF_SHAPES, *_OF_IMAGES}
  there, here = unseen
  return {
    name: (
      there.get(name, getattr(found, name)),
      here.get(name, getattr(wanted, name)),
    )
    for name in type(found).model_fields
    if name in found.model_fields_set
    and (name in there or name not in others)
    and not isinstance(getattr(found, name), schema.Section)
  }


def taken_over(model: schema.Model, found: schema.Model) -> schema.Model:
  """Returns `model` updated with the keys that a checkpoint's file states."""
  values: dict[str, Any] = {}
  for key, (value, _) in told(found, model).items():
    part, _, name = key.rpartition(".")
    if part:
      section = values.get(part, getattr(model, part))
      values[part] = section.model_copy(update={name: value})
    else:
      values[key] = value
  return model.updated(**values)


def check(
  path: str,
  found: schema.Model,
  wanted: schema.Model,
  allowed: Collection[str] = (),
) -> None:
  """Checks that a network computes the function its parameters are for.

  Args:
    path: Where the parameters come from, for messages.
    found: Section of the checkpoint; unset keys are unknown.
    wanted: Section of the network.
    allowed: Keys that may differ, such as 'model.pool'.

  Raises:
    UserError: Keys differ; the message lists each with both values.
  """
  if found.name != wanted.name:
    return  # Parameters do not fit, or an external family handles them.
  keys = told(found, wanted)
  # Positions are resized for other image sizes, which may need other windows.
  of_sizes = (
    "pos_embedding_resize"
    if found.image_size == wanted.image_size
    else "window_size"
  )
  lines = [
    f"  config.model.{key} is {here!r}, {there!r} there"
    for key, (there, here) in keys.items()
    if there != here
    and key.rpartition(".")[2] != of_sizes
    and f"model.{key}" not in allowed
  ]
  if lines:
    raise UserError(
      f"The network of {path} computes another function of the same"
      " parameters:\n"
      + "\n".join(lines)
      + "\nGive the config the same values, or set"
      " config.model_from_init=True. To train with the others on purpose, name"
      " the keys in config.allow_change, such as 'model.pool'."
    )
