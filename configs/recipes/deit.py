"""Recipes of DeiT (arXiv 2012.12877) and DeiT III (arXiv 2204.07118).

Numbers are those of the released code and its commands
(facebookresearch/deit: main.py, README_deit.md, README_revenge.md).
"""

from collections.abc import Iterable

import ml_collections

from vit_jax.config import names, pixels
from vit_jax.config.defaults import default_config, default_eval
from vit_jax.configs.recipes import torchvision_eval
from vit_jax.errors import UserError

# Phase -> size -> rate of stochastic depth. README_revenge.md; that of the
# large networks at 384 pixels is in the checkpoints' arguments.
_DEPTH = {
  "pretrain": {"S": 0.05, "B": 0.2, "L": 0.45, "H": 0.6},
  "finetune224": {"B": 0.2, "L": 0.45, "H": 0.55},
  "finetune384": {"S": 0.0, "B": 0.15, "L": 0.4},
  "i21k": {"S": 0.05, "B": 0.1, "L": 0.3, "H": 0.5},
  "i21k_to_i1k": {"S": 0.05, "B": 0.15, "L": 0.4, "H": 0.45},
}
# Side of the images, pixels, where it is less than 224. H/14 is given 160 and
# 128, of which its patches cover these.
_SIDES = {
  ("pretrain", "B"): 192,
  ("pretrain", "L"): 192,
  ("pretrain", "H"): 154,
  ("i21k", "H"): 126,
}
# Copies of an image stand together in a batch, where the released sampler
# deals them out to GPUs. Batches are the multiples of 3 x 64 that are nearest
# to 1024, 2048 and 512, so that copies and 64 devices divide them.
_REPEATS = 3
_BATCH, _BATCH_OF_LAMB, _FINETUNING_BATCH = 960, 2112, 576
_RANDAUG = "randaug(2, 9, 0.5, True)"
_CROP = "random_resized_crop"
_THREE = "three_augment|color_jitter(0.3, 0.3, 0.3)|flip_lr"


def deit(
  model: str, *, phase: str, distilled: bool, teacher: str
) -> ml_collections.ConfigDict:
  """DeiT: 300 epochs on ImageNet-1k, or 30 more at 384 pixels.

  Args:
    model: 'Ti', 'S' or 'B'.
    phase: 'pretrain' or 'finetune384'.
    distilled: True adds the distillation token.
    teacher: Checkpoint that it learns from; '': labels alone.

  Raises:
    UserError: There is no such recipe, or a teacher for nobody to learn from.
  """
  if teacher and not distilled:
    raise UserError(
      "Config argument teacher is what the distillation token learns from: add"
      " distilled."
    )
  suffix = "-distilled" if distilled else ""
  config = regularized(f"DeiT-{model}/16{suffix}", drop_rate=0.1)
  config.model.weight_init = "deit"
  config.objective.teacher = teacher or None
  if phase == "pretrain":
    pretrain(config)
  elif phase == "finetune384":
    _start(config, 384)
    config.total_epochs = 30.0
    config.train.batch_size = _FINETUNING_BATCH
    config.optimizer.weight_decay = 1e-8
    config.schedule.update(
      base_lr=5e-6, warmup_steps="5 epochs", decay="constant"
    )
  else:
    raise _unknown(phase, ("pretrain", "finetune384"))
  return config


def regularized(
  name: str,
  *,
  drop_rate: float,
  normalize: str = "imagenet",
) -> ml_collections.ConfigDict:
  """DeiT's augmentation and regularisation of any network.

  Args:
    name: Name of the network.
    drop_rate: Of its stochastic depth.
    normalize: `model.normalize`, whose mean RandAugment fills with.
  """
  config = _base(name, batch_size=_BATCH, crop=0.875)
  config.model.update(stochastic_depth_rate=drop_rate)
  randaug = _RANDAUG
  if normalize != "imagenet":
    mean, _ = pixels.parse(normalize)
    fill = [round(255 * channel) for channel in mean]
    randaug = f"{_RANDAUG[:-1]}, fill={fill})"
  config.train.update(preprocess=f"decode|{_CROP}|{randaug}|flip_lr")
  config.train.repeats = _REPEATS
  config.objective.update(
    label_smoothing=0.1,
    mixup_alpha=0.8,
    cutmix_alpha=1.0,
    erase_probability=0.25,
  )
  config.optimizer.update(name="adamw", weight_decay=0.05)
  return config


def pretrain(config: ml_collections.ConfigDict) -> None:
  """Makes a `regularized` network's run the 300 epochs of DeiT, in place."""
  config.total_epochs = 300.0
  config.schedule.update(
    base_lr=5e-4 * _BATCH / 512,
    warmup_steps="5 epochs",
    warmup_prefix=False,
    end_lr=1e-5,
  )


def deit3(model: str, *, phase: str) -> ml_collections.ConfigDict:
  """DeiT III on ImageNet-1k or 21k, and its fine-tunings.

  Args:
    model: 'S', 'B', 'L' or 'H'.
    phase: 'pretrain' (800 epochs of ImageNet-1k), 'finetune224' (20 more of the
      large ones at full size), 'finetune384', 'i21k' or 'i21k_to_i1k'.

  Raises:
    UserError: There is no such recipe.
  """
  if phase not in _DEPTH:
    raise _unknown(phase, _DEPTH)
  rates = _DEPTH[phase]
  if model not in rates:
    raise UserError(
      f"Config argument model = {model!r}: DeiT III has no recipe of it for"
      f" phase={phase}, only of {', '.join(rates)}."
    )
  patch = 14 if model == "H" else 16
  config = _base(f"DeiT3-{model}/{patch}", batch_size=2048, crop=1.0)
  config.model.update(
    stochastic_depth_rate=rates[model],
    image_size=_SIDES.get((phase, model), 224),
  )
  config.objective.update(mixup_alpha=0.8, cutmix_alpha=1.0)
  config.model.weight_init = "deit"
  # FusedLAMB, which the commands name, clips by itself (apex).
  config.optimizer.update(name="lamb", weight_decay=0.05, grad_clip_norm=1.0)
  config.schedule.update(
    warmup_steps="5 epochs", warmup_prefix=False, end_lr=1e-5
  )
  config.train.preprocess = f"decode|{_CROP}|{_THREE}"
  if phase == "pretrain":
    config.total_epochs = 800.0
    config.train.update(batch_size=_BATCH_OF_LAMB, repeats=_REPEATS)
    config.objective.update(loss="sigmoid_mean", binarize_targets=True)
    config.schedule.base_lr = 4e-3 if model == "S" else 3e-3
  elif phase in ("i21k", "i21k_to_i1k"):
    config.train.preprocess = f"decode|simple_random_crop|{_THREE}"
    config.objective.update(mixup_alpha=0.0, label_smoothing=0.1)
    config.optimizer.weight_decay = 0.02
    _twenty_one_thousand(config, model, is_first=phase == "i21k")
  else:
    _start(config, 384 if phase == "finetune384" else 224)
    config.total_epochs = 20.0
    config.train.update(
      batch_size=512, preprocess=f"decode|{_CROP}|{_RANDAUG}|flip_lr"
    )
    config.objective.label_smoothing = 0.1
    config.optimizer.update(name="adamw", weight_decay=0.1, grad_clip_norm=None)
    # The least rate of the released cosine is the rate itself.
    config.schedule.update(base_lr=1e-5, decay="constant")
  return config


def _base(
  name: str, *, batch_size: int, crop: float
) -> ml_collections.ConfigDict:
  """Data, precision and evaluation of all phases."""
  config = default_config()
  config.log_every_steps = 100
  config.model.update(names.find(name).model_dump(exclude_unset=True))
  config.model.update(image_size=224, dtype="bfloat16")
  config.train.update(dataset="imagenet2012", batch_size=batch_size)
  config.optimizer.grad_clip_norm = None
  config.checkpoint.every_steps = 1000
  config.evals.val = default_eval(
    type="classification", split="validation", every_steps=5000
  )
  config.evals.val.preprocess = torchvision_eval.ops(1 / crop)
  return config


def _start(config: ml_collections.ConfigDict, image_size: int) -> None:
  """Makes a phase of one that starts from another's checkpoint."""
  config.init_from = "runs/pretrain"
  config.model.image_size = image_size


def _twenty_one_thousand(
  config: ml_collections.ConfigDict, model: str, *, is_first: bool
) -> None:
  """ImageNet-21k, or ImageNet-1k after it."""
  if is_first:
    config.train.dataset = "imagenet21k"
    del config.evals.val  # ImageNet-21k has no validation split.
    config.total_epochs = 90.0 if model == "H" else 240.0
    config.schedule.base_lr = 1e-3
    return
  _start(config, 224)
  config.total_epochs = 50.0
  config.schedule.base_lr = 3e-4


def _unknown(phase: str, known: Iterable[str]) -> UserError:
  return UserError(
    f"Config argument phase = {phase!r} is not known; known are"
    f" {', '.join(known)}."
  )
