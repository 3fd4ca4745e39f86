"""Keys of `config.model` by which equal parameters compute something else.

Shapes do not tell the form of the GELU, how tokens are pooled or how pixels are
normalised. A network with other values than those that the parameters were
trained with gives wrong results without an error, so they are compared.
"""

from collections.abc import Collection, Mapping
from typing import Any

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.errors import UserError

# Keys of training, and of the head, which belongs to the classes.
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
  "scan_layers",
  "remat",
)
# A variant stands for all its numbers, which the shapes of parameters tell but
# for those that a family names in `Family.unseen`.
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
# The shapes tell these too; of the images, `image_size` may change, and with it
# the windows of a Swin whose shapes tell them, and whether they leave a rest.
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
  """Function-changing keys of a checkpoint's section that the file tells.

  Args:
    found: Section of the checkpoint; keys that are not set are not known.
    wanted: Section of the network.

  Returns:
    {key: (value there, value here)}; keys of a part of the network are named
    'image.pool' and the like. Parts of other families have none: their
    parameters do not fit.
  """
  if type(found) is not type(wanted):
    return {}
  keys = _told(found, wanted, _unseen(found, wanted))
  parts = registry.FAMILIES.get(found.name).parts
  for name in type(found).model_fields:
    there, here = getattr(found, name), getattr(wanted, name)
    if isinstance(there, schema.Section) and type(there) is type(here):
      # What a part's size follows from may be keys of the whole.
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
  """As `told`, without the keys of parts; `unseen` is both sections'."""
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
  """`model` with what a checkpoint's section tells in place of its own."""
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
  """Checks that a network computes what its parameters were trained for.

  Args:
    path: Origin of the parameters, for messages.
    found: Section of the checkpoint; keys that are not set are not known.
    wanted: Section of the network.
    allowed: Keys that may differ, such as 'model.pool'.

  Raises:
    UserError: Keys differ; each is named with both values.
  """
  if found.name != wanted.name:
    return  # The parameters do not fit, or an outside family takes them over.
  keys = told(found, wanted)
  # Positions are resized for other images, which may want other windows too.
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
