"""EVA-02 (arXiv 2303.11331): prediction of a frozen teacher's features.

  --config=configs/eva02.py:model=B,teacher=runs/clip
  --config=configs/eva02.py:model=B,phase=finetune --config.init_from=runs/eva02

`model` is Ti, S, B or L. The phases are pretrain, 240 or 150 epochs of
ImageNet-21k without labels, and finetune, on ImageNet-1k at 336 pixels (Ti, S)
or 448 (B, L). `teacher` is a checkpoint of any form with patches; the released
networks learned from the image tower of EVA-CLIP g/14.

Numbers are those of the released code (baaivision/EVA: EVA-02/asuka/README.md,
run_eva_pretraining.py). There, rates warm up from 1e-6 in pre-training and
heads of classes start at a thousandth of their values; here both are at 0.
"""

import ml_collections

from vit_jax.config import arguments, names, smoke
from vit_jax.config.defaults import (
  default_config,
  default_eval,
  default_fewshot_dataset,
)
from vit_jax.configs.recipes import deit, torchvision_eval

# Size -> epochs, batch size, rate and stochastic depth.
_PRETRAINING = {
  "Ti": (240.0, 4000, 3e-3, 0.0),
  "S": (240.0, 4000, 3e-3, 0.0),
  "B": (150.0, 2048, 1.5e-3, 0.0),
  "L": (150.0, 2048, 1.5e-3, 0.1),
}
# Size -> side of the images, epochs, epochs of warm-up, rate, decay over
# layers, stochastic depth and label smoothing.
_FINETUNING = {
  "Ti": (336, 100.0, 5, 2e-4, 0.9, 0.1, 0.1),
  "S": (336, 100.0, 5, 1e-4, 0.8, 0.1, 0.1),
  "B": (448, 30.0, 3, 1e-4, 0.7, 0.1, 0.1),
  "L": (448, 30.0, 3, 5e-5, 0.8, 0.15, 0.2),
}
_FINETUNING_BATCH = 1024


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(args, model="B", phase="pretrain", teacher="")
  arguments.check_choice("model", args.model, _PRETRAINING)
  arguments.check_choice("phase", args.phase, ("pretrain", "finetune"))
  if args.phase == "pretrain":
    config = _pretraining(args.model, args.teacher)
  else:
    config = _finetuning(args.model)
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
    # All that is not a vector, but the class token and positions.
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


def _finetuning(model: str) -> ml_collections.ConfigDict:
  """DeiT's augmentation of single copies, without mixing and erasing."""
  side, epochs, warmup, rate, decay, drop_rate, smoothing = _FINETUNING[model]
  config = deit.regularized("ViT-B/16", drop_rate=drop_rate, normalize="clip")
  _network(config, model)
  config.init_from = "runs/eva02"
  config.model.image_size = side
  config.allow_change = "model.pool, model.norm_after_pool"
  config.total_epochs = epochs
  config.train.update(batch_size=_FINETUNING_BATCH, repeats=1)
  config.objective.update(
    label_smoothing=smoothing,
    mixup_alpha=0.0,
    cutmix_alpha=0.0,
    erase_probability=0.0,
  )
  if model == "L":
    config.update(ema_decay=0.9999, ema_warmup=False)
  config.optimizer.update(layer_decay=decay, freeze=r"embedding/.*")
  config.schedule.update(
    base_lr=rate, warmup_steps=f"{warmup} epochs", decay="cosine", end_lr=0.0
  )
  config.evals.val.preprocess = torchvision_eval.ops(1.0)
  return config


def _network(config: ml_collections.ConfigDict, model: str) -> None:
  """The network as released, for pixels of CLIP's statistics."""
  config.model.update(
    names.find(f"EVA02-{model}/14").model_dump(exclude_unset=True)
  )
