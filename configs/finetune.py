"""Fine-tuning as in Table 4 of the ViT paper (arXiv 2010.11929).

  --config=configs/finetune.py:dataset=cifar10 --config.init_from=B_16.npz
  --config=configs/finetune.py:dataset=imagenet2012,image_size=512,polyak

The architecture is that of init_from, unless `model`, such as H/14, sets it.
Other arguments: `lr`; `image_size`; `polyak`, the average of the parameters
that Table 2 reports for ImageNet; `crop=random`, big_vision's resize and random
crop instead of the inception crop of the published code; `split=dev`, training
without the held-out part of train and evaluation on that part. ImageNet is also
measured on the ReaL labels. To choose the learning rate on the held-out part
and then train on all of train:

  python -m vit_jax.sweep --config=configs/finetune.py:dataset=cifar10 \\
      --config.init_from=B_16.npz --workdir=runs/cifar10

The tasks of VTAB-1k are in configs/vtab.py, BiT's own recipe in
configs/resnet.py.
"""

import ml_collections

from vit_jax.config import arguments, smoke
from vit_jax.config.defaults import default_eval
from vit_jax.configs.recipes import finetuning, paper_row


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(
    args,
    dataset="cifar10",
    model="",
    lr=0.0,
    image_size=384,
    crop="",
    split="full",
    polyak=False,
  )
  arguments.check_choice("dataset", args.dataset, finetuning.TASKS)
  arguments.check_choice("crop", args.crop, finetuning.CROPS)
  arguments.check_choice("split", args.split, finetuning.SPLITS)
  task, is_dev = finetuning.TASKS[args.dataset], args.split == "dev"
  config = finetuning.build(
    task,
    model=args.model,
    image_size=args.image_size,
    crop=args.crop,
    is_dev=is_dev,
  )
  if args.lr:
    config.schedule.base_lr = args.lr
  if args.polyak:
    config.ema_decay = 0.9999
  if task.dataset == "imagenet2012" and not is_dev:
    config.evals.real = default_eval(
      type="classification",
      dataset="imagenet2012_real",
      split="validation",
      label_key="real_label",
    )
  if not is_dev and (args.polyak or args.image_size == 384):
    paper_row.finetuning(config)
  return smoke.shrink(config) if args.smoke else config
