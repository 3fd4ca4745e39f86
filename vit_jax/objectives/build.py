"""From `config.objective` to an `Objective`."""

from etils import epy

from vit_jax import registry
from vit_jax.config import schema, sizes
from vit_jax.data import spec
from vit_jax.errors import UserError
from vit_jax.objectives.kind import ObjectiveKind

with epy.lazy_imports():  # Checking names must not wait for jax.
  from vit_jax.objectives import contract, masked_patch, supervised

OBJECTIVES = {
  "masked_patch": masked_patch,
  "supervised": supervised,
}


def check(config: schema.Config) -> None:
  """Raises UserError for an objective that cannot be built."""
  objective = config.objective
  kind = registry.OBJECTIVES.get(objective.name)
  if config.model.pool == "none":
    raise UserError(
      'config.model.pool = "none" gives features of every patch; objective'
      f' "{objective.name}" needs one of the image: use "cls", "gap" or "map".'
    )
  kind.check(config)


def _check_supervised(config: schema.Config) -> None:
  objective = config.objective
  preprocess = spec.parse(
    config.train.preprocess, image_size=config.model.image_size
  )
  if not preprocess.has_labels:
    raise UserError(
      f'config.train.preprocess = "{preprocess.text}" drops the labels that'
      ' objective "supervised" learns from; name them in keep.'
    )
  if objective.loss == "sigmoid" and objective.label_smoothing >= 0.5:
    raise UserError(
      f"config.objective.label_smoothing = {objective.label_smoothing:g}"
      " leaves the sigmoid loss nothing to learn: its targets are 1 - s and"
      " s; use a value below 0.5, such as 1e-4."
    )


def _check_masked_patch(config: schema.Config) -> None:
  model = config.model
  if model.name != "vit":
    raise UserError(
      f"config.model.name = {model.name!r} has no patches; objective"
      ' "masked_patch" needs "vit".'
    )
  if model.pool == "map":
    raise UserError(
      'config.model.pool = "map" learns how to pool, which objective'
      ' "masked_patch" does not train; use "cls" or "gap".'
    )
  if model.representation_size is not None:
    raise UserError(
      f"config.model.representation_size = {model.representation_size!r} is of"
      ' a head that objective "masked_patch" does not have; leave it unset.'
    )
  size = sizes.vit(model)
  covered = size.grid(model.image_size) * size.patch_size
  if covered > model.image_size:
    raise UserError(
      f"config.model.image_size = {model.image_size} is less than the"
      f" {covered} pixels that the patches of {model.variant!r} stand for;"
      f' objective "masked_patch" predicts their pixels: use {covered}.'
    )
  if config.objective.target == "colours_4x4" and size.patch_size % 4:
    raise UserError(
      'config.objective.target = "colours_4x4" cuts patches of'
      f" {size.patch_size} pixels in four; use a patch size that is a multiple"
      ' of 4, or target "mean_colour" or "pixels".'
    )
  for name, entry in config.evals.items():
    if entry.type == "classification":
      raise UserError(
        f'config.evals.{name} is of type "classification", but objective'
        ' "masked_patch" trains no classifier; use "fewshot".'
      )


MASKED_PATCH = ObjectiveKind(schema.MaskedPatch, _check_masked_patch)
SUPERVISED = ObjectiveKind(schema.Supervised, _check_supervised)


def build(
  config: schema.Config, *, num_classes: int, max_labels: int
) -> "contract.Objective":
  """The objective named by the config.

  Args:
    config: the experiment.
    num_classes: classes of the training labels and of the model's head.
    max_labels: labels per example; 1: `label` is int32 [b], more:
      int32 [b, max_labels] padded with -1.

  Raises:
    UserError: as `check` does.
  """
  check(config)
  return OBJECTIVES[config.objective.name].build(
    config, num_classes=num_classes, max_labels=max_labels
  )


def forward_flops(config: schema.Config, *, num_classes: int) -> int:
  """FLOPs of an image's forward pass in training, two per multiply-add."""
  return OBJECTIVES[config.objective.name].forward_flops(
    config, num_classes=num_classes
  )
