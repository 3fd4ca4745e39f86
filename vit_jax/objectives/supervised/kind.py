"""The declaration of supervised classification and regression."""

from typing import TYPE_CHECKING

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.data import targets
from vit_jax.data.facts import DataFacts
from vit_jax.errors import UserError
from vit_jax.objectives import frozen_path
from vit_jax.objectives.kind import ObjectiveKind
from vit_jax.objectives.supervised import class_weights, number_scale
from vit_jax.paper import cost

if TYPE_CHECKING:
  from vit_jax.objectives.contract import Objective

_TEACHER = "config.objective.teacher"
_LOSSES = {
  "softmax": "softmax",
  "sigmoid": "sigmoid",
  "sigmoid_mean": "sigmoid (mean over classes)",
}
_ERRORS = {"mse": "squared error", "mae": "absolute error"}
_DISTILLATION = {
  "hard": "hard",
  "soft": "soft, at temperature {:g}, divided by the classes",
  "soft_batchmean": "soft, at temperature {:g}",
}


def check(config: schema.Config) -> None:
  """Raises UserError for a config that cannot be trained."""
  objective = config.objective
  if registry.FAMILIES.get(config.model.name).has_text:
    raise UserError(
      f"config.model.name = {config.model.name!r} has two towers, but objective"
      ' "supervised" trains a single network with a head; leave it unset, and'
      " config.init_from may be a checkpoint with two towers, whose image tower"
      " is then fine-tuned."
    )
  if objective.predicts_numbers:
    _check_numbers(config)
  if objective.loss != "softmax" and objective.label_smoothing >= 0.5:
    raise UserError(
      f"config.objective.label_smoothing = {objective.label_smoothing:g}"
      " leaves the sigmoid loss nothing to learn: its targets are 1 - s and"
      " s; use a value below 0.5, such as 1e-4."
    )
  if objective.binarize_targets and (
    objective.loss == "softmax" or objective.label_smoothing
  ):
    raise UserError(
      "config.objective.binarize_targets = True gives every label the target 1,"
      f" but config.objective.loss = {objective.loss!r} with"
      f" config.objective.label_smoothing = {objective.label_smoothing:g} wants"
      " shares; use loss 'sigmoid' or 'sigmoid_mean' without smoothing."
    )
  class_weights.check(objective, config.train.sampling)
  batch_size, repeats = config.train.batch_size, config.train.repeats
  mixes = objective.mixup_alpha or objective.cutmix_alpha
  if mixes and objective.mix_mode == "pair" and batch_size % 2:
    raise UserError(
      f"config.train.batch_size = {batch_size} is odd, so that an image has no"
      " partner under config.objective.mix_mode = 'pair'; use"
      f" {batch_size + 1}, or mix_mode 'batch' or 'elem'."
    )
  if mixes and batch_size <= repeats:
    times = f", repeated {repeats} times (config.train.repeats)"
    raise UserError(
      f"config.train.batch_size = {batch_size} holds one example"
      f"{times if repeats > 1 else ''}, so that there is none to mix"
      f" it with; use {2 * repeats} or more."
    )
  if objective.teacher is not None:
    frozen_path.check(
      _TEACHER,
      objective.teacher,
      without=", or None for no teacher",
    )


def check_files(config: schema.Config) -> None:
  """Raises UserError for a teacher that cannot be read."""
  if config.objective.teacher is not None:
    from vit_jax.objectives import frozen_network

    frozen_network.check_readable(_TEACHER, config.objective.teacher)


def _check_numbers(config: schema.Config) -> None:
  """Raises UserError for keys that apply only to classification."""
  objective = config.objective
  targets.check(objective.loss, config.train.dataset)
  for key, value in (
    ("label_smoothing", 0.0),
    ("class_weights", None),
    ("binarize_targets", False),
    ("teacher", None),
  ):
    if (given := getattr(objective, key)) != value:
      raise UserError(
        f"config.objective.{key} = {given!r} is for classes, and"
        f" config.objective.loss = {objective.loss!r} predicts numbers; set it"
        f" to {value!r}."
      )
  if config.train.sampling == "balanced":
    raise UserError(
      "config.train.sampling = 'balanced' draws from every class in turn, and"
      f" config.objective.loss = {objective.loss!r} predicts numbers; set it to"
      " 'uniform'."
    )


def build(
  config: schema.Config, facts: DataFacts, total_steps: int
) -> "Objective":
  """Builds classification or regression for the network of the config."""
  from vit_jax.models import build as models_build
  from vit_jax.objectives.supervised import objective, regression

  del total_steps
  network = models_build.create(config.model, num_classes=facts.num_classes)
  if config.objective.predicts_numbers:
    return regression.regression(
      network, config, facts.targets, facts.num_classes
    )
  master = None
  if config.objective.teacher is not None:
    from vit_jax.objectives.supervised import teacher

    master = teacher.read(config, facts.num_classes, facts.class_names)
  weights = class_weights.of_data(config.objective, facts)
  return objective.supervised(network, config, master, weights)


def forward_flops(config: schema.Config, num_classes: int) -> int:
  """Counts FLOPs of an image's forward pass, two per multiply-add.

  A training step counts as three forward passes, but only one for a teacher or
  a backbone frozen by `optimizer.freeze`.
  """
  from vit_jax.optim import multipliers

  model = config.model
  flops = cost.trained_flops(model, num_classes=num_classes)
  shapes = registry.FAMILIES.get(model.name).shapes
  if shapes is not None and multipliers.freezes_backbone(
    config.optimizer, shapes(model, num_classes)
  ):
    backbone = cost.trained_flops(model, num_classes=None)
    flops += backbone // 3 - backbone
  if config.objective.teacher is not None:
    from vit_jax.objectives import frozen_network

    flops += frozen_network.forward_flops(config.objective.teacher) // 3
  return flops


def describe(config: schema.Config) -> dict[str, str]:
  """Describes the loss, label smoothing, mixing and the teacher."""
  objective = config.objective
  extras = {
    "label smoothing": objective.label_smoothing,
    "mixup": objective.mixup_alpha,
    "CutMix": objective.cutmix_alpha,
    "random erasing": objective.erase_probability,
  }
  shown = [f"{name} {value:g}" for name, value in extras.items() if value]
  if objective.class_weights is not None:
    form = "balanced" if objective.class_weights == "balanced" else "given"
    shown.append(f"{form} class weights")
  if objective.binarize_targets:
    shown.append("binarised targets")
  if objective.predicts_numbers:
    task = f"{_ERRORS[objective.loss]} of numbers over their deviation"
  else:
    task = f"{_LOSSES[objective.loss]} cross-entropy"
  found = {"objective": ", ".join([task, *shown])}
  if objective.teacher is not None:
    kind = _DISTILLATION[objective.distillation].format(
      objective.distillation_temperature
    )
    found["distillation"] = (
      f"{kind}, weight {objective.distillation_weight:g}, from"
      f" {objective.teacher}"
    )
  return found


def activation(config: schema.Config) -> str:
  """Returns the name of the output activation; 'none' for numbers."""
  if config.objective.predicts_numbers:
    return "none"
  return config.objective.loss.removesuffix("_mean")


KIND = ObjectiveKind(
  section=schema.Supervised,
  build=build,
  forward_flops=forward_flops,
  describe=describe,
  needs=("image", "label"),
  check=check,
  check_files=check_files,
  exported=number_scale.exported,
  activation=activation,
)
