"""Models ready to use: from a checkpoint, or by name."""

from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from vit_jax import trees
from vit_jax.config import schema
from vit_jax.models import build, names
from vit_jax.pretrained import fitting, reading
from vit_jax.weights import flat
from vit_jax.weights.contract import Weights

_SEED = 0
# The same network without what training alone or one kind of device wants.
ANY_DEVICE = {"attention": "xla", "remat": "none"}


def load(
  path: str,
  image_size: int | None = None,
  num_classes: int | None = None,
  *,
  drop_remainder: bool | None = None,
) -> tuple[nn.Module, dict[str, Any]]:
  """A model and its parameters, from a checkpoint of any form.

  Another number of classes than the file's is taken as the paper takes it
  (section 3.2): the whole pre-training head goes, with its pre_logits layer if
  it has one, and a linear layer of zeros takes its place. What is dropped, made
  anew, resized or assumed is logged.

  Args:
    path: a google-research .npz, a .safetensors file or directory of Hugging
      Face or timm, or a workdir of ours or one of its checkpoints/STEP; on
      disk or in a bucket.
    image_size: side of the square images, pixels; None: the file's. The
      position embedding is resized for another.
    num_classes: None: the file's, without a head if it has none.
    drop_remainder: whether pixels that fill no patch are left unused, as for
      the published H/14 at 384 pixels; None: as the file has it.

  Returns:
    The flax module, with attention that runs on any device, and its
    parameters: `logits = model.apply({"params": params}, images)`.

  Raises:
    UserError: the checkpoint is not there, is damaged or is not understood; or
      the image's size does not suit its patches.
  """
  return adapt(
    reading.read(path),
    image_size=image_size,
    num_classes=num_classes,
    drop_remainder=drop_remainder,
  )


def adapt(
  weights: Weights,
  *,
  image_size: int | None = None,
  num_classes: int | None = None,
  drop_remainder: bool | None = None,
) -> tuple[nn.Module, dict[str, Any]]:
  """`load` of what has been read already."""
  changes: dict[str, Any] = {}
  if image_size is not None:
    changes["image_size"] = image_size
  if drop_remainder is not None:
    changes["drop_remainder"] = drop_remainder
  if num_classes is not None and num_classes != weights.model.num_classes:
    changes.update(num_classes=num_classes, representation_size=None)
  model = weights.model.model_copy(update={**ANY_DEVICE, **changes})
  return _build(model, weights)


def create_model(
  name: str,
  *,
  num_classes: int | None = 1000,
  image_size: int = 224,
  pretrained: str | None = None,
) -> tuple[nn.Module, dict[str, Any]]:
  """A model by name, with new parameters or those of a checkpoint.

  Args:
    name: one of `vit_jax.list_models()`.
    num_classes: outputs of the head; None: no head.
    image_size: side of the square images, pixels.
    pretrained: a checkpoint whose body is taken over, and its head if it has
      as many classes; a path as `load` takes it.

  Returns:
    The flax module and its parameters.

  Raises:
    UserError: the name is not known, with the nearest; or the checkpoint is
      not of such a model, with a table of what does not fit.
  """
  model = names.resolve(name, num_classes=num_classes, image_size=image_size)
  if pretrained is None:
    return _build(model, None)
  return _build(model, reading.read(pretrained))


def _build(
  model: schema.Model, weights: Weights | None
) -> tuple[nn.Module, dict[str, Any]]:
  """The network, with what `weights` gives and the rest initialised."""
  module = build.create(model, num_classes=model.num_classes)
  size = model.image_size

  def init() -> Any:
    images = jnp.zeros((1, size, size, 3), jnp.uint8)
    return module.init(jax.random.key(_SEED), images)["params"]

  abstract = dict(trees.named_leaves(jax.eval_shape(init)))
  fresh: Sequence[str] = tuple(abstract)
  given: dict[str, Any] = {}
  if weights is not None:
    fitted = fitting.fit(flat.unflatten(abstract), weights, model)
    given, fresh = flat.flatten(fitted.params), fitted.fresh

  def init_fresh() -> dict[str, Any]:
    made = dict(trees.named_leaves(init()))
    return {name: made[name] for name in fresh}

  made = jax.jit(init_fresh)() if fresh else {}
  leaves = {
    name: made[name] if name in made else jnp.asarray(given[name], leaf.dtype)
    for name, leaf in abstract.items()
  }
  return module, flat.unflatten(leaves)
