"""Pre-training as in Table 3 of the ViT paper (arXiv 2010.11929).

  --config=configs/pretrain.py:model=L/16,data=i21k
  --config=configs/pretrain.py:model=B/16,data=i1k,epochs=90

Models B/16, B/32, L/16, L/32 and, on JFT, H/14, the ResNets R50x1 to R152x2
and the hybrids R50+B/32 to R50+L/16. `data` is i1k (TFDS's
imagenet2012), i21k (`imagenet21k`, which TFDS has not: prepare your own under
that name) or jft (`jft_300m`, not public). Weight decay is multiplied by the
learning rate, as the paper's is.
"""

import ml_collections

from vit_jax.config import arguments, smoke
from vit_jax.config.defaults import (
  default_config,
  default_eval,
  default_fewshot_dataset,
)
from vit_jax.errors import UserError

# (dataset, model) -> (epochs, base_lr). Table 3; where it has two lengths, the
# longer.
RECIPES = {
  ("i1k", "B/16"): (300, 3e-3),
  ("i1k", "B/32"): (300, 3e-3),
  ("i1k", "L/16"): (300, 3e-3),
  ("i1k", "L/32"): (300, 3e-3),
  ("i21k", "B/16"): (90, 1e-3),
  ("i21k", "B/32"): (90, 1e-3),
  ("i21k", "L/16"): (90, 1e-3),
  ("i21k", "L/32"): (90, 1e-3),
  ("jft", "B/16"): (7, 8e-4),
  ("jft", "B/32"): (7, 8e-4),
  ("jft", "L/32"): (7, 6e-4),
  ("jft", "L/16"): (14, 4e-4),
  ("jft", "H/14"): (14, 3e-4),
  ("jft", "R50x1"): (7, 1e-3),
  ("jft", "R50x2"): (7, 1e-3),
  ("jft", "R101x1"): (7, 8e-4),
  ("jft", "R152x1"): (7, 6e-4),
  ("jft", "R152x2"): (7, 6e-4),
  ("jft", "R50+B/16"): (7, 8e-4),
  ("jft", "R50+B/32"): (7, 8e-4),
  ("jft", "R50+L/32"): (7, 2e-4),
  ("jft", "R50+L/16"): (14, 4e-4),
}


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(args, model="B/16", data="i1k", epochs=0)
  if (args.data, args.model) not in RECIPES:
    known = ", ".join(f"model={m},data={d}" for d, m in RECIPES)
    raise UserError(
      f"Table 3 of the paper has no recipe for model={args.model} on"
      f" data={args.data}; it has {known}."
    )
  epochs, base_lr = RECIPES[args.data, args.model]
  config = default_config()
  config.total_epochs = float(args.epochs or epochs)
  config.log_every_steps = 100
  config.model.update(variant=args.model, image_size=224, dtype="bfloat16")
  config.model.head_bias_init = -10.0
  if "/" in args.model:
    config.model.representation_size = "width"
  else:  # A ResNet's head is linear.
    config.model.name = "resnet"
  config.train.update(batch_size=4096)
  config.train.preprocess = "decode|inception_crop|flip_lr"
  # The paper does not name the loss; its authors' code has this one.
  config.objective.loss = "sigmoid"
  config.optimizer.update(name="adamw", grad_clip_norm=1.0)
  config.schedule.update(
    base_lr=base_lr, warmup_steps=10_000, decay="linear", end_lr=1e-5
  )
  config.checkpoint.update(every_steps=1000)
  config.evals.val = default_eval(
    type="classification", split="validation", every_steps=5000
  )
  config.evals.val.preprocess = "decode|resize_small(scale=1.1429)|central_crop"
  config.evals.fewshot = default_eval(type="fewshot", every_steps=10_000)
  config.evals.fewshot.datasets.pets = default_fewshot_dataset(
    dataset="oxford_iiit_pet"
  )
  if args.data == "i1k":
    config.train.dataset = "imagenet2012"
    config.model.dropout_rate = 0.1
    config.objective.label_smoothing = 1e-4
    config.optimizer.weight_decay = 0.3
    config.schedule.decay = "cosine"
  elif args.data == "i21k":
    config.train.dataset = "imagenet21k"
    config.model.dropout_rate = 0.1
    config.optimizer.weight_decay = 0.03
  else:
    config.train.update(dataset="jft_300m", label_key="labels")
    config.train.preprocess = "decode|inception_crop|pad_labels(8)|flip_lr"
    config.evals.val.label_key = "labels"
    config.optimizer.weight_decay = 0.1
  if not args.smoke:
    return config
  return smoke.shrink(config, max_labels=3 if args.data == "jft" else 1)
