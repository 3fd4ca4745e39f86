"""FLOPs and parameters of networks in closed form.

Two FLOPs are one multiply-add. They are counted as the paper's tables do:
matrix products and convolutions only, so that normalisation, softmax and
activations are left out. Each family counts its own.
"""

from vit_jax import registry
from vit_jax.config import names, schema


def training_exaflops(
  model: str | schema.Model, images: int | float, epochs: int | float
) -> float:
  """Cost of a training run in units of 10^18, as Table 6 gives it.

  Forward and backward passes, three times the forward pass.

  Args:
    model: A name such as 'ViT-B/16', 'R50+B/16' or 'BiT-R50x1', at 224 px
      with 1000 classes; or the section of a config, of which a `num_classes`
      of None counts as 1000 classes.
    images: Number of images of the dataset.
    epochs: Number of passes over it.

  Raises:
    UserError: There is no model of this name.
  """
  if isinstance(model, str):
    model = names.find(model)
  forward = forward_flops(model, num_classes=model.num_classes or 1000)
  return 3 * forward * images * epochs / 1e18


def forward_flops(model: schema.Model, *, num_classes: int | None) -> int:
  """FLOPs of one image's forward pass, two per multiply-add.

  Args:
    model: The section of a config; its own `num_classes` is ignored.
    num_classes: Outputs of the head; None is no head.
  """
  family = registry.FAMILIES.get(model.name)
  return family.forward_flops(model, num_classes)


def computed_flops(
  model: schema.Model,
  *,
  num_classes: int | None,
  read_patches: int | None = None,
) -> int:
  """As `forward_flops`, less what the network leaves out as nothing reads it.

  A step's share of the device's peak is computed from these.

  Args:
    model: The section of a config; its own `num_classes` is ignored.
    num_classes: Outputs of the head; None is no head.
    read_patches: Number of patches that an objective reads, if it does not
      read what the head does.
  """
  read = () if read_patches is None else (read_patches,)
  unread = registry.FAMILIES.get(model.name).unread_flops(model, *read)
  return forward_flops(model, num_classes=num_classes) - unread


def trained_flops(
  model: schema.Model,
  *,
  num_classes: int | None,
  read_patches: int | None = None,
) -> int:
  """As `computed_flops`, less what stochastic depth skips in training.

  Args: As of `computed_flops`.
  """
  whole = forward_flops(model, num_classes=num_classes)
  computed = computed_flops(
    model, num_classes=num_classes, read_patches=read_patches
  )
  family = registry.FAMILIES.get(model.name)
  return computed - family.skipped_flops(model, whole - computed)


def num_params(
  model: str | schema.Model, *, num_classes: int | None = 1000
) -> int:
  """Parameters of a network, its head's included.

  Args:
    model: A name, or the section of a config, as in `training_exaflops`.
    num_classes: Outputs of the head; None is no head.

  Raises:
    UserError: There is no model of this name.
  """
  if isinstance(model, str):
    model = names.find(model)
  return registry.FAMILIES.get(model.name).num_params(model, num_classes)
