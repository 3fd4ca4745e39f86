"""From `config.objective` to an `Objective`."""

import difflib

from etils import epy

from vit_jax.config import schema
from vit_jax.data import spec
from vit_jax.errors import UserError

with epy.lazy_imports():  # Checking names must not wait for jax.
  from vit_jax.objectives import contract, supervised

OBJECTIVES = {
  "supervised": supervised,
}


def check(config: schema.Config) -> None:
  """Raises UserError for an objective that cannot be built."""
  objective = config.objective
  if objective.name not in OBJECTIVES:
    near = difflib.get_close_matches(objective.name, OBJECTIVES, n=1, cutoff=0)
    raise UserError(
      f"config.objective.name = {objective.name!r} is not known; did you"
      f" mean {near[0]!r}? Known: {', '.join(OBJECTIVES)}."
    )
  if config.model.pool == "none":
    raise UserError(
      'config.model.pool = "none" gives features of every patch; objective'
      ' "supervised" needs one of the image: use "cls", "gap" or "map".'
    )
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
