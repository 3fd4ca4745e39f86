"""Plain ViTs with augmentation and regularisation, as big_vision trains them.

  --config=configs/augreg.py                        # S/16, 90 epochs, 76.5 %
  --config=configs/augreg.py:epochs=300
  --config=configs/augreg.py:recipe=augreg,model=B/16
  --config=configs/augreg.py:recipe=augreg,model=Ti/16,data=i21k
  --config=configs/augreg.py:recipe=augreg,model=L/16,aug=strong1,reg=0.1

`recipe=baseline` is "Better plain ViT baselines for ImageNet-1k" (arXiv
2205.01580), [BV] vit_s16_i1k.py. `recipe=augreg` is "How to train your ViT?"
(arXiv 2106.10270), [BV] vit_i1k.py and vit_i21k.py: Ti/16, S/32, S/16, B/32,
B/16 and L/16 on ImageNet-1k or 21k for 300 epochs, each with the augmentation
that suits it. `aug` selects another of none, light1, light2, medium1, medium2,
strong1 and strong2, and `reg` is the rate of dropout and of stochastic depth.
light1 still changes images, by operations that have no magnitude.

[BV] multiplies its weight decay of 1e-4 by the schedule alone; here it is 0.1,
multiplied by the learning rate, which is the same.
"""

import ml_collections

from vit_jax.config import arguments, smoke
from vit_jax.config.defaults import (
  default_config,
  default_eval,
  default_fewshot_dataset,
)

# Name -> (magnitude of RandAugment, mixup). Section 3.3 of arXiv 2106.10270.
AUGMENTATIONS = {
  "none": (None, 0.0),
  "light1": (0, 0.0),
  "light2": (10, 0.2),
  "medium1": (15, 0.2),
  "medium2": (15, 0.5),
  "strong1": (20, 0.5),
  "strong2": (20, 0.8),
}
# Data -> model -> augmentation, between the best for 30 and for 300 epochs.
_CHOICES = {
  "i1k": {
    "Ti/16": "light1",
    "S/32": "medium1",
    "S/16": "medium2",
    "B/32": "medium2",
    "B/16": "medium2",
    "L/16": "medium2",
  },
  "i21k": {
    "Ti/16": "none",
    "S/32": "none",
    "S/16": "light1",
    "B/32": "light2",
    "B/16": "light2",
    "L/16": "medium2",
  },
}


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(
    args,
    recipe="baseline",
    model="S/16",
    data="i1k",
    aug="",
    reg=0.0,
    epochs=0.0,
  )
  arguments.check_choice("recipe", args.recipe, ("baseline", "augreg"))
  arguments.check_choice("aug", args.aug, ("", *AUGMENTATIONS))
  arguments.check_choice("data", args.data, _CHOICES)
  if args.recipe == "baseline":
    arguments.check_choice("model", args.model, ("S/16",))
    arguments.check_choice("data", args.data, ("i1k",))
    config = _baseline(args.aug or "light2", args.epochs or 90.0)
  else:
    choices = _CHOICES[args.data]
    arguments.check_choice("model", args.model, choices)
    aug = args.aug or choices[args.model]
    config = _augreg(args.model, args.data, aug, args.epochs or 300.0)
  config.model.update(dropout_rate=args.reg, stochastic_depth_rate=args.reg)
  return smoke.shrink(config) if args.smoke else config


def _baseline(aug: str, epochs: float) -> ml_collections.ConfigDict:
  config = _base("S/16", aug, epochs, batch_size=1024)
  config.model.update(
    pool="gap", pos_embedding="sincos2d", representation_size="width"
  )
  return config


def _augreg(
  model: str, data: str, aug: str, epochs: float
) -> ml_collections.ConfigDict:
  config = _base(model, aug, epochs, batch_size=4096)
  config.model.update(pos_embedding_stddev="width", cls_position=False)
  config.objective.loss = "sigmoid"
  if data == "i1k":
    config.model.update(head_bias_init=-6.9, representation_size="width")
    return config
  config.model.update(pool="gap", cls_position=True, head_bias_init=-10.0)
  config.train.update(dataset="imagenet21k", split="train[51200:]")
  config.evals.val.update(split="train[25600:51200]")
  del config.evals.minival
  return config


def _base(
  model: str, aug: str, epochs: float, batch_size: int
) -> ml_collections.ConfigDict:
  """Settings of both recipes."""
  magnitude, mixup = AUGMENTATIONS[aug]
  ops = "" if magnitude is None else f"|randaug(2, {magnitude})"
  config = default_config()
  config.total_epochs = epochs
  config.log_every_steps = 50
  config.model.update(variant=model, image_size=224, dtype="bfloat16")
  config.train.update(
    dataset="imagenet2012",
    split="train[:99%]",
    batch_size=batch_size,
    preprocess=f"decode|inception_crop{ops}|flip_lr",
  )
  config.objective.mixup_alpha = mixup
  config.optimizer.update(
    name="adamw", weight_decay=0.1, grad_clip_norm=1.0, mu_dtype="bfloat16"
  )
  config.schedule.update(base_lr=1e-3, warmup_steps=10_000, decay="cosine")
  config.checkpoint.every_steps = 1000
  for name, split in (("minival", "train[99%:]"), ("val", "validation")):
    config.evals[name] = default_eval(
      type="classification", split=split, every_steps=2500
    )
    config.evals[
      name
    ].preprocess = "decode|resize_small(scale=1.142857)|central_crop"
  config.evals.fewshot = default_eval(type="fewshot", every_steps=10_000)
  config.evals.fewshot.datasets.pets = default_fewshot_dataset(
    dataset="oxford_iiit_pet"
  )
  return config
