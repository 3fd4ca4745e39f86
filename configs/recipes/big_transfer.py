"""The recipes of Big Transfer (arXiv 1912.11370), for experiment files."""

import dataclasses

import ml_collections

from vit_jax.config import names
from vit_jax.configs.recipes import finetuning, paper_row, pretraining
from vit_jax.configs.recipes.finetuning import Task

# Data -> (epochs, those at which the rate falls to a tenth). BiT-S, M and L.
PRETRAINING = {
  "i1k": (90, (30, 60, 80)),
  "i21k": (90, (30, 60, 80)),
  "jft": (40, (10, 23, 30, 37)),
}
# Fine-tuning: fewer examples than this -> steps.
_STEPS = ((20_000, 500), (500_000, 10_000))
_MOST_STEPS = 20_000
_SMALL_IMAGE = 96  # Pixels; smaller ones are not enlarged as much.
RULES = ("paper", "released")


def pretrain(
  model: str, data: str, *, epochs: float = 0.0
) -> ml_collections.ConfigDict:
  """SGD instead of Adam, with rates that fall in steps.

  Args:
    model: A ResNet, such as 'R50x1'.
    data: A key of `PRETRAINING`.
    epochs: Length; the rate falls at the same fractions of it. 0: that of BiT.

  Raises:
    UserError: No model has that name.
  """
  length, falls = PRETRAINING[data]
  epochs = epochs or length
  config = pretraining.on(data)
  config.total_epochs = float(epochs)
  config.model.update(names.find(model).model_dump(exclude_unset=True))
  config.model.dropout_rate = 0.0
  if data == "i1k":
    config.model.head_bias_init = 0.0
    config.objective.update(loss="softmax", label_smoothing=0.0)
  # A decay of 1e-4 within the gradient passes through the momentum, which
  # multiplies it by ten; see vit_jax/optim/transforms.py.
  config.optimizer.update(
    name="sgd", momentum=0.9, weight_decay=1e-3, grad_clip_norm=None
  )
  config.schedule.update(
    base_lr=0.03 * config.train.batch_size / 256,
    warmup_steps=5000,
    decay="steps",
    boundaries=tuple(f"{100 * fall / length:.12g}%" for fall in falls),
    end_lr=0.0,
  )
  paper_row.pretraining(config, data, "sgd")
  return config


def finetune(
  task: Task,
  *,
  num_examples: int,
  image_side: int,
  model: str = "",
  rule: str = "paper",
) -> ml_collections.ConfigDict:
  """The HyperRule: all settings follow from the dataset's size and images.

  Args:
    task: Task to fine-tune on.
    num_examples: Examples of its training split.
    image_side: Side of its images, pixels.
    model: Such as 'R50x1'; '': the architecture of `init_from`.
    rule: One of `RULES`. The paper (3.3, A) has no warmup, a rate that falls at
      30, 60 and 90 % of the run, and crops of 384 pixels, or 480 of R152x4. The
      released code (bit_hyperrule.py of google-research/big_transfer) warms up
      for 500 steps, or for 100 of 500, whose rate falls at 200, 300 and 400,
      and crops 480 pixels whatever the network.

  Raises:
    UserError: No model has that name.
  """
  steps = next(
    (steps for most, steps in _STEPS if num_examples < most), _MOST_STEPS
  )
  size, crop = (160, 128) if image_side < _SMALL_IMAGE else (448, 384)
  is_short, is_released = steps == _STEPS[0][1], rule == "released"
  if crop == 384 and (is_released or model == "R152x4"):
    size, crop = 512, 480
  warmup = ("20%" if is_short else 500) if is_released else 0
  falls = (40, 60, 80) if is_short and is_released else (30, 60, 90)
  task = dataclasses.replace(task, steps=steps, rates=(0.003,), base_lr=0.003)
  config = finetuning.build(task, model=model, image_size=crop)
  config.train.preprocess = f"decode|resize({size})|random_crop|flip_lr"
  config.optimizer.update(grad_clip_norm=None, mu_dtype="float32")
  config.schedule.update(
    warmup_steps=warmup,
    decay="steps",
    boundaries=tuple(f"{fall}%" for fall in falls),
  )
  if not is_short:
    config.objective.mixup_alpha = 0.1
  paper_row.finetuning(config)
  return config
