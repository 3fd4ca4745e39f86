"""Keys of `config.model` by which equal parameters compute something else.

Shapes do not tell the form of the GELU, how tokens are pooled or how pixels are
normalised. A network with other values than those that the parameters were
trained with gives wrong results without an error, so they are compared.
"""

import operator
from collections.abc import Collection
from typing import Any

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
# A variant stands for all its numbers, which the shapes of parameters tell.
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
# the windows of a Swin.
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
_OF_IMAGES = ("image_size", "drop_remainder", "window_size")


def told(found: schema.Section) -> dict[str, Any]:
  """Function-changing keys of a checkpoint's section that the file tells.

  Those of a part of the network are named 'image.pool' and the like.
  """
  others = {*OF_TRAINING, *OF_VARIANT, *_OF_SHAPES, *_OF_IMAGES}
  keys: dict[str, Any] = {}
  for name in type(found).model_fields:
    value = getattr(found, name)
    if isinstance(value, schema.Section):
      keys |= {f"{name}.{key}": inner for key, inner in told(value).items()}
    elif name in found.model_fields_set - others:
      keys[name] = value
  return keys


def taken_over(model: schema.Model, found: schema.Model) -> schema.Model:
  """`model` with what a checkpoint's section tells in place of its own."""
  values: dict[str, Any] = {}
  for key, value in told(found).items():
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
  keys = told(found)
  if found.image_size == wanted.image_size:
    keys.pop("pos_embedding_resize", None)
  here = {key: operator.attrgetter(key)(wanted) for key in keys}
  lines = [
    f"  config.model.{key} is {here[key]!r}, {value!r} there"
    for key, value in keys.items()
    if value != here[key] and f"model.{key}" not in allowed
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
