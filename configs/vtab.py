"""VTAB-1k as in the ViT paper (arXiv 2010.11929, Table 9).

  --config=configs/vtab.py:task=clevr_count --config.init_from=B_16.npz
  --config=configs/vtab.py:task=dtd,model=L/16,split=dev

`task` is one of the nineteen in vit_jax/paper/vtab.py, each with 1000 training
examples, of which `split=dev` holds out 200 to evaluate on. All tasks have one
setting, 2500 steps of 512 images of 384 px at learning rate 0.01. The paper
chose it among two rates and two schedules by the mean over the tasks' 200
images; `lr` and `steps` serve to repeat that choice. `model` and `image_size`
are as in configs/finetune.py.

A task uses only those crops and flips that leave its labels valid.
"""

import ml_collections

from vit_jax.config import arguments, smoke
from vit_jax.configs.recipes import finetuning, paper_row
from vit_jax.paper import vtab

_PLAIN = (None, False)
_FLIP = (None, True)
_CROP = ("random", False)
_BOTH = ("random", True)
# Crop of training images and whether they are mirrored, if not both.
# google-research/task_adaptation
_AUGMENTATION = {
  "clevr_count": _FLIP,
  "clevr_distance": _FLIP,
  "dmlab": _FLIP,
  "dsprites_location": _PLAIN,
  "dsprites_orientation": _CROP,
  "kitti": _FLIP,
  "smallnorb_azimuth": _CROP,
}


def _task(name: str) -> finetuning.Task:
  task = vtab.TASKS[name]
  crop, flip = _AUGMENTATION.get(name, _BOTH)
  return finetuning.Task(
    dataset=task.dataset,
    steps=2500,
    rates=(0.01,),
    base_lr=0.01,
    train=task.train,
    without_dev="train[:800]",
    dev=task.dev,
    test=task.test,
    warmup_steps=200,  # google-research/scenic
    crop=crop,
    flip=flip,
    label_key=task.label_key,
    # Stored as 0 and 1.
    decode="decode|scale_pixels(255)"
    if task.dataset == "dsprites"
    else "decode",
    num_classes=task.num_classes,
  )


TASKS = {name: _task(name) for name in vtab.TASKS}


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(
    args,
    task="caltech101",
    model="",
    lr=0.0,
    steps=0,
    image_size=384,
    split="full",
  )
  arguments.check_choice("task", args.task, TASKS)
  arguments.check_choice("split", args.split, finetuning.SPLITS)
  config = finetuning.build(
    TASKS[args.task],
    model=args.model,
    image_size=args.image_size,
    is_dev=args.split == "dev",
  )
  if args.split == "full" and args.image_size == 384:
    paper_row.vtab(config, args.task)
  if args.lr:
    config.schedule.base_lr = args.lr
  if args.steps:
    config.total_steps = args.steps
  return smoke.shrink(config) if args.smoke else config
