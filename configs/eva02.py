"""EVA-02 (arXiv 2303.11331): prediction of a frozen teacher's features.

  --config=configs/eva02.py:model=B,teacher=runs/clip
  --config=configs/eva02.py:model=B,phase=finetune --config.init_from=runs/eva02

`model` is Ti, S, B or L. The phases are pretrain, 240 or 150 epochs of
ImageNet-21k without labels, and finetune, on ImageNet-1k at 336 pixels (Ti, S)
or 448 (B, L). The best published networks (B, L) have two other phases instead
of finetune, both at 448 pixels:

  labels21k     40 or 20 epochs of ImageNet-21k with labels
  finetune21k   then 15 or 20 epochs of ImageNet-1k

`teacher` is a checkpoint, of any form, of a network with patches; the released
networks learned from the image tower of EVA-CLIP g/14.

Numbers are those of the released code (baaivision/EVA: EVA-02/asuka/README.md,
run_eva_pretraining.py). There, the learning rate of pre-training warms up from
1e-6, and classification heads start at a thousandth of their random values;
here both start at 0.
"""

import dataclasses

import ml_collections

from vit_jax.config import arguments, names, smoke
from vit_jax.config.defaults import (
  default_config,
  default_eval,
  default_fewshot_dataset,
)
from vit_jax.configs.recipes import deit, torchvision_eval
from vit_jax.errors import UserError

# Size -> epochs, batch size, rate and stochastic depth.
_PRETRAINING = {
  "Ti": (240.0, 4000, 3e-3, 0.0),
  "S": (240.0, 4000, 3e-3, 0.0),
  "B": (150.0, 2048, 1.5e-3, 0.0),
  "L": (150.0, 2048, 1.5e-3, 0.1),
}


@dataclasses.dataclass(frozen=True)
class Labels:
  """A run with labels.

  Attributes:
    epochs: Passes over the training split.
    warmup: Epochs of warm-up.
    base_lr: Peak learning rate.
    layer_decay: Factor of the rate from each layer to the one below it.
    drop_rate: Stochastic depth.
    smoothing: Label smoothing.
    batch_size: Images of an update.
    image_size: Side of the images, pixels.
    is_averaged: True if the running average of the parameters is evaluated.
  """

  epochs: int
  warmup: int
  base_lr: float
  layer_decay: float
  drop_rate: float = 0.1
  smoothing: float = 0.1
  batch_size: int = 1024
  image_size: int = 448
  is_averaged: bool = False


_LABELS = {
  ("finetune", "Ti"): Labels(100, 5, 2e-4, 0.9, image_size=336),
  ("finetune", "S"): Labels(100, 5, 1e-4, 0.8, image_size=336),
  ("finetune", "B"): Labels(30, 3, 1e-4, 0.7),
  ("finetune", "L"): Labels(30, 3, 5e-5, 0.8, 0.15, 0.2, is_averaged=True),
  ("labels21k", "B"): Labels(40, 1, 3e-4, 0.7, batch_size=2048),
  ("labels21k", "L"): Labels(20, 1, 2e-4, 0.75, 0.15),
  ("finetune21k", "B"): Labels(
    15, 2, 5e-5, 0.8, 0.15, 0.2, 512, is_averaged=True
  ),
  ("finetune21k", "L"): Labels(
    20, 2, 2e-5, 0.85, 0.15, 0.2, 512, is_averaged=True
  ),
}
_PHASES = ("pretrain", *dict.fromkeys(phase for phase, _ in _LABELS))


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(args, model="B", phase="pretrain", teacher="")
  arguments.check_choice("model", args.model, _PRETRAINING)
  arguments.check_choice("phase", args.phase, _PHASES)
  is_first = args.phase == "pretrain"
  arguments.check_used("teacher", args.teacher, is_first, "phase=pretrain")
  if is_first:
    config = _pretraining(args.model, args.teacher)
  else:
    sizes = [size for phase, size in _LABELS if phase == args.phase]
    if args.model not in sizes:
      raise UserError(
        f"Config argument model = {args.model!r} has no published recipe for"
        f" phase={args.phase}; it is for {', '.join(sizes)}."
      )
    config = _with_labels(args.model, args.phase)
  return smoke.shrink(config) if args.smoke else config


def _pretraining(model: str, teacher: str) -> ml_collections.ConfigDict:
  epochs, batch_size, rate, drop_rate = _PRETRAINING[model]
  config = default_config()
  config.log_every_steps = 100
  config.total_epochs = epochs
  _network(config, model)
  # Tokens are predicted from after the last norm, and the class token pools.
  config.model.update(pool="cls", cls_token=None, norm_after_pool=False)
  config.model.update(
    image_size=224, dtype="bfloat16", stochastic_depth_rate=drop_rate
  )
  config.objective.name = "feature_prediction"
  config.objective.teacher = teacher or None
  config.train.update(
    dataset="imagenet21k",
    batch_size=batch_size,
    preprocess="decode|random_resized_crop(scale=[0.2, 1.0])|keep('image')"
    "|flip_lr",
  )
  config.optimizer.update(
    name="adamw",
    weight_decay=0.05,
    b2=0.98,
    eps=1e-6,
    grad_clip_norm=3.0,
    # Everything except vectors, the class token and positions.
    decay_mask=(r".*/kernel", "mask_token"),
  )
  config.schedule.update(
    base_lr=rate, warmup_steps="1 epochs", decay="cosine", end_lr=1e-5
  )
  config.checkpoint.every_steps = 1000
  config.evals.knn = default_eval(type="knn", every_steps="10 epochs")
  config.evals.knn.datasets.imagenet = default_fewshot_dataset(
    dataset="imagenet2012",
    train_split="train",
    test_split="validation",
    preprocess=torchvision_eval.ops(256 / 224),
  )
  return config


def _with_labels(model: str, phase: str) -> ml_collections.ConfigDict:
  """DeiT's augmentation of single copies, without mixing and erasing."""
  run = _LABELS[phase, model]
  config = deit.regularized(
    "ViT-B/16", drop_rate=run.drop_rate, normalize="clip"
  )
  _network(config, model)
  config.init_from = "runs/eva02"
  config.model.image_size = run.image_size
  if phase != "finetune21k":
    config.allow_change = "model.pool, model.norm_after_pool"
  config.total_epochs = float(run.epochs)
  config.train.update(batch_size=run.batch_size, repeats=1)
  config.objective.update(
    label_smoothing=run.smoothing,
    mixup_alpha=0.0,
    cutmix_alpha=0.0,
    erase_probability=0.0,
  )
  if run.is_averaged:
    config.update(ema_decay=0.9999, ema_warmup=False)
  config.optimizer.update(layer_decay=run.layer_decay, freeze=r"embedding/.*")
  config.schedule.update(
    base_lr=run.base_lr,
    warmup_steps=f"{run.warmup} epochs",
    decay="cosine",
    end_lr=0.0,
  )
  config.evals.val.preprocess = torchvision_eval.ops(1.0)
  if phase == "labels21k":
    config.train.dataset = "imagenet21k"
    config.train.preprocess = config.train.preprocess.replace(
      "random_resized_crop", "random_resized_crop(scale=[0.2, 1.0])"
    )
    # ImageNet-21k has no validation split.
    del config.evals.val
  return config


def _network(config: ml_collections.ConfigDict, model: str) -> None:
  """The network as released, for pixels of CLIP's statistics."""
  config.model.update(
    names.find(f"EVA02-{model}/14").model_dump(exclude_unset=True)
  )
