"""Models with parameters, from a checkpoint or by name."""

import numbers
import os
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from vit_jax import registry, trees, vit_models
from vit_jax.config import schema
from vit_jax.errors import UserError
from vit_jax.models import build, names
from vit_jax.pretrained import fitting, function_keys, reading
from vit_jax.weights import flat
from vit_jax.weights.contract import Weights

# Settings that let a network run on any device, without training.
ANY_DEVICE = {"attention": "xla", "depthwise": "xla", "remat": "none"}
_HEADS = ("head/", "head_dist/")


def load(
  path: str | os.PathLike,
  image_size: int | None = None,
  num_classes: int | None = None,
  *,
  drop_remainder: bool | None = None,
  pretraining: bool = False,
) -> tuple[nn.Module, dict[str, Any]]:
  """Loads a model and its parameters from a checkpoint in any format.

  Logs dropped, new and resized parameters and assumptions.

  Args:
    path: A google-research .npz file, a .safetensors file or directory from
      Hugging Face or timm, a .pth file from a family's authors, or a workdir or
      one of its checkpoints/STEP; on disk or in a bucket. Or a name to
      download: 'augreg_i21k:B/16' or another from docs/published_weights.md, or
      'hf:OWNER/NAME' on the Hugging Face hub.
    image_size: Side of the square images, in pixels; the position embedding is
      resized if it differs from the checkpoint's. None keeps the checkpoint's.
    num_classes: Number of outputs. If it differs from the checkpoint's, the
      whole pre-training head is replaced by a linear layer of zeros (section
      3.2 of the paper). None keeps the checkpoint's head, if any; 0 drops it.
    drop_remainder: Ignores pixels at the border that do not fill a patch, as
      for the published H/14 at 384 pixels; None keeps the checkpoint's setting.
    pretraining: Also returns the objective's parameters, if the checkpoint has
      them, such as a masked autoencoder's `decoder`. The module ignores them.

  Returns:
    The flax module and its parameters, a nested dict.

  Raises:
    UserError: The checkpoint is missing, damaged or not understood; the image
      size does not suit its patches; or `num_classes` is given for a network
      that compares images with texts.

  Example:
    model, params = vit_jax.load("B_16.npz", image_size=384)
    logits = model.apply({"params": params}, images)  # uint8 [n, 384, 384, 3]
  """
  weights = reading.read(os.fspath(path))
  model, params = adapt(
    weights,
    image_size=image_size,
    num_classes=num_classes,
    drop_remainder=drop_remainder,
  )
  if pretraining:
    params |= jax.tree.map(jnp.asarray, dict(weights.beside))
  return model, params


def adapt(
  weights: Weights,
  *,
  image_size: int | None = None,
  num_classes: int | None = None,
  drop_remainder: bool | None = None,
) -> tuple[nn.Module, dict[str, Any]]:
  """Builds a model like `load`, from weights that have been read."""
  _check_classes(num_classes)
  if num_classes and registry.FAMILIES.get(weights.model.name).has_text:
    raise UserError(
      f"num_classes = {num_classes} asks for a head, and {weights.path}"
      " compares images with texts and has none. Its image tower can have one:"
      " load it as model, params, save it by"
      ' vit_jax.save("tower.npz", model.image, params["image"]), and fine-tune'
      " that file."
    )
  changes: dict[str, Any] = {}
  if image_size is not None:
    changes["image_size"] = image_size
  if drop_remainder is not None:
    changes["drop_remainder"] = drop_remainder
  if num_classes is not None and num_classes != weights.model.num_classes:
    changes.update(num_classes=num_classes or None, representation_size=None)
  model = weights.model.updated(**ANY_DEVICE, **changes)
  return _build(model, weights, new_head=jnp.zeros_like)


def create_model(
  name: str,
  *,
  num_classes: int | None = 1000,
  image_size: int | None = None,
  pretrained: str | os.PathLike | bool | None = None,
  seed: int = 0,
) -> tuple[nn.Module, dict[str, Any]]:
  """Creates a model by name, with random parameters or a checkpoint's.

  Args:
    name: One of `vit_jax.list_models()`, or a name in timm, Hugging Face or
      torchvision, such as 'vit_base_patch16_224'.
    num_classes: Number of outputs of the head; None or 0 for no head.
    image_size: Side of the square images, in pixels. None for the size in the
      name, or 224.
    pretrained: A checkpoint as for `load`, or one of google-research's
      collections 'vit_i21k', 'vit_i21k_i1k', 'augreg_i21k', 'augreg_i21k_i1k',
      'augreg_i1k' and 'sam_i1k', whose file for this network is downloaded;
      None or False for none. The head is used if it has `num_classes` classes;
      the form of the GELU, the pixel mean and other keys that shapes do not
      determine always are.
    seed: Seed of the random parameters.

  Returns:
    The flax module and its parameters, a nested dict.

  Raises:
    UserError: The name is unknown (the message suggests the closest one), or
      the checkpoint is for a different model (the message has a table of
      mismatches).

  Example:
    model, params = vit_jax.create_model("S/16", num_classes=10)
    model, params = vit_jax.create_model("B/16", pretrained="augreg_i21k_i1k")
  """
  _check_classes(num_classes)
  model = names.resolve(
    name, num_classes=num_classes or None, image_size=image_size
  )
  if pretrained is None or pretrained is False:
    return _build(model, None, seed)
  if pretrained is True:
    raise UserError(
      "pretrained = True names no weights; give the path of a checkpoint or its"
      ' name, as in pretrained="B_16.npz", "augreg_i21k" or "hf:OWNER/NAME".'
    )
  pretrained = os.fspath(pretrained)
  if pretrained in vit_models.COLLECTIONS:
    variant = registry.FAMILIES.get(model.name).describe(model)
    pretrained = vit_models.named(pretrained, variant, model.image_size)
  weights = reading.read(pretrained)
  if weights.model.name == model.name:
    model = function_keys.taken_over(model, weights.model)
  return _build(model, weights, seed)


def _check_classes(number: int | None) -> None:
  """Raises UserError unless this is a valid number of classes."""
  if number is not None and not (
    isinstance(number, numbers.Integral) and number >= 0
  ):
    raise UserError(
      f"num_classes = {number!r} is not a number of classes; give a positive"
      " integer, or 0 for no head."
    )


def _build(
  model: schema.Model,
  weights: Weights | None,
  seed: int = 0,
  new_head: Callable[[jax.Array], jax.Array] = lambda drawn: drawn,
) -> tuple[nn.Module, dict[str, Any]]:
  """Builds a network with the parameters of `weights`; initialises the rest.

  Args:
    model: Section `model` of the network.
    weights: Parameters to use; None for none.
    seed: Seed of the initialised parameters.
    new_head: Maps each initialised parameter of a head that is not in `weights`
      to the value to use instead.
  """
  module = build.create(model, num_classes=model.num_classes)
  size = model.image_size

  def init() -> Any:
    # Computes only parameters. The compiled initializer of a shape is reused by
    # all models with that shape.
    images = jax.ShapeDtypeStruct((1, size, size, 3), jnp.uint8)
    key = jax.random.key(seed)
    return module.lazy_init(key, images, mutable="params")["params"]

  if weights is None:
    return module, init()
  abstract = jax.eval_shape(init)
  fitted = fitting.fit(abstract, weights, model)
  leaves = flat.flatten(fitted.params)

  def init_fresh() -> dict[str, Any]:
    made = dict(trees.named_leaves(init()))
    return {
      name: new_head(made[name]) if name.startswith(_HEADS) else made[name]
      for name in fitted.fresh
    }

  if fitted.fresh:
    leaves |= jax.jit(init_fresh)()
  return module, trees.map_named(
    lambda name, leaf: jnp.asarray(leaves[name], leaf.dtype), abstract
  )
