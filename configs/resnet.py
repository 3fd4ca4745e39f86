"""ResNets by the recipes of Big Transfer (arXiv 1912.11370).

  --config=configs/resnet.py:model=R50x1,data=jft,epochs=7
  --config=configs/resnet.py:model=R50x1,dataset=cifar10 \\
      --config.init_from=runs/R50x1

`data` (i1k, i21k or jft) pre-trains by SGD: BiT-S, M and L or, with epochs=7,
the ResNets that Table 7 of the ViT paper compares with Adam's. That paper does
not say when the learning rate falls; here it falls at the same fractions of the
run as in BiT-L's 40 epochs.
`dataset` (any of configs/finetune.py) fine-tunes by the HyperRule of the paper
or, with `rule=released`, by that of the released code. The ViT paper fine-tunes
ResNets both in this way and as in Table 4, and reports the better result.

ResNets pre-trained by Adam, as in Tables 3 and 6, are in configs/pretrain.py.
"""

import ml_collections

from vit_jax.config import arguments, smoke
from vit_jax.configs.recipes import big_transfer, finetuning, pretraining
from vit_jax.errors import UserError
from vit_jax.paper.datasets import DATASETS

# Side of the images in pixels, if it is less than 96.
_SMALL = {"cifar10": 32, "cifar100": 32}


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(
    args, model="R50x1", data="", dataset="", epochs=0.0, rule="paper"
  )
  arguments.check_choice("rule", args.rule, big_transfer.RULES)
  if args.data and args.dataset:
    raise UserError(
      "Config arguments data and dataset are of two recipes: give data= to"
      " pre-train, or dataset= to fine-tune."
    )
  if args.dataset and args.epochs:
    raise UserError(
      f"Config argument epochs = {args.epochs:g} is of pre-training; the length"
      " of a fine-tuning follows from the size of its dataset. Override"
      " config.total_steps for another."
    )
  if args.rule != "paper" and not args.dataset:
    raise UserError(
      f"Config argument rule = {args.rule!r} is of fine-tuning; give dataset="
      " to fine-tune, or leave it out."
    )
  if not args.dataset:
    data = args.data or "i21k"
    arguments.check_choice("data", data, big_transfer.PRETRAINING)
    config = big_transfer.pretrain(args.model, data, epochs=args.epochs)
    return pretraining.shrink(config, data) if args.smoke else config
  tasks = finetuning.TASKS
  arguments.check_choice("dataset", args.dataset, tasks)
  config = big_transfer.finetune(
    tasks[args.dataset],
    num_examples=DATASETS[args.dataset].num_examples["train"],
    image_side=_SMALL.get(args.dataset, 224),
    model=args.model,
    rule=args.rule,
  )
  return smoke.shrink(config) if args.smoke else config
