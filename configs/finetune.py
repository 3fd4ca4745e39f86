"""Fine-tuning as in Table 4 of the ViT paper (arXiv 2010.11929).

  --config=configs/finetune.py:dataset=cifar10 --config.init_from=B_16.npz
  --config=configs/finetune.py:dataset=imagenet2012,image_size=512,polyak

The architecture is that of init_from; with `model=H/14` it is written here
instead. Other arguments: `lr`; `image_size`; `polyak`, the average that Table 2
reports for ImageNet; `crop=random`, resize and random crop as big_vision has
it, in place of the inception crop of the published code; `split=dev`, training
without the held-out part of train and evaluating on that. To have the learning
rate chosen so and then train on all:

  python -m vit_jax.sweep --config=configs/finetune.py:dataset=cifar10 \\
      --config.init_from=B_16.npz --workdir=runs/cifar10
"""

import dataclasses

import ml_collections

from vit_jax.config import arguments, names, smoke
from vit_jax.config.defaults import default_config, default_eval

_SMALL_RATES = (0.001, 0.003, 0.01, 0.03)


@dataclasses.dataclass(frozen=True)
class Task:
  """A dataset and how the paper fine-tunes on it.

  Attributes:
    dataset: TFDS name.
    steps: of 512 images each.
    rates: learning rates that are tried.
    base_lr: the one used without a sweep.
    train: all that may be trained on.
    without_dev: what is trained on while rates are compared.
    dev: the rest of `train`, that they are compared on.
    test: what is reported on.
    warmup_steps: of the published code.
    crop: of training images: 'inception', 'random' (a crop of the resized
      image) or None.
    flip: whether they are mirrored.
    label_key: feature that holds the label.
  """

  dataset: str
  steps: int
  rates: tuple[float, ...]
  base_lr: float
  train: str
  without_dev: str
  dev: str
  test: str
  warmup_steps: int = 500
  crop: str | None = "inception"
  flip: bool = True
  label_key: str = "label"


def _task(
  dataset: str,
  steps: int,
  dev_percent: int,
  *,
  base_lr: float,
  rates: tuple[float, ...] = _SMALL_RATES,
  test: str = "test",
  warmup_steps: int = 500,
) -> Task:
  """A task whose dev examples are the last ones of train."""
  cut = 100 - dev_percent
  return Task(
    dataset=dataset,
    steps=steps,
    rates=rates,
    base_lr=base_lr,
    train="train",
    without_dev=f"train[:{cut}%]",
    dev=f"train[{cut}%:]",
    test=test,
    warmup_steps=warmup_steps,
  )


def _vtab(
  dataset: str,
  dev: str,
  test: str = "test",
  *,
  crop: str | None = "random",
  flip: bool = True,
  label_key: str = "label",
) -> Task:
  """A task of VTAB-1k: 800 examples, 200 to choose by, then all 1000."""
  return Task(
    dataset=dataset,
    steps=2500,
    rates=(0.01,),
    base_lr=0.01,
    train=f"train[:800]+{dev}",
    without_dev="train[:800]",
    dev=dev,
    test=test,
    warmup_steps=200,  # google-research/scenic
    crop=crop,
    flip=flip,
    label_key=label_key,
  )


_VALIDATION = "validation[:200]"
# Table 4. Where no dev score is at hand, the middle of the rates that the
# published code and big_vision use.
TASKS = {
  "imagenet2012": _task(
    "imagenet2012",
    20_000,
    1,
    base_lr=0.03,
    rates=(0.003, 0.01, 0.03, 0.06),
    test="validation",
  ),
  "cifar10": _task("cifar10", 10_000, 2, base_lr=0.01),
  "cifar100": _task("cifar100", 10_000, 2, base_lr=0.01),
  "oxford_iiit_pet": _task(
    "oxford_iiit_pet", 500, 10, base_lr=0.003, warmup_steps=100
  ),
  "oxford_flowers102": _task(
    "oxford_flowers102", 500, 10, base_lr=0.003, warmup_steps=100
  ),
  # The tasks of VTAB-1k whose labels are stored as such. The others compute
  # theirs from positions and counts of objects.
  "vtab/caltech101": _vtab("caltech101", "train[2754:2954]"),
  "vtab/cifar100": _vtab("cifar100", "train[45000:45200]"),
  "vtab/dtd": _vtab("dtd", _VALIDATION),
  "vtab/oxford_flowers102": _vtab("oxford_flowers102", _VALIDATION),
  "vtab/oxford_iiit_pet": _vtab("oxford_iiit_pet", "train[2944:3144]"),
  "vtab/sun397": _vtab("sun397/tfds", _VALIDATION),
  "vtab/svhn": _vtab("svhn_cropped", "train[65931:66131]"),
  "vtab/patch_camelyon": _vtab("patch_camelyon", _VALIDATION),
  "vtab/eurosat": _vtab("eurosat/rgb", "train[16200:16400]", "train[21600:]"),
  "vtab/resisc45": _vtab("resisc45", "train[18900:19100]", "train[25200:]"),
  "vtab/retinopathy": _vtab(
    "diabetic_retinopathy_detection/btgraham-300", _VALIDATION
  ),
  "vtab/dmlab": _vtab("dmlab", _VALIDATION, crop=None),
  "vtab/smallnorb_azimuth": _vtab(
    "smallnorb",
    "test[:200]",
    "test[50%:]",
    flip=False,
    label_key="label_azimuth",
  ),
  "vtab/smallnorb_elevation": _vtab(
    "smallnorb", "test[:200]", "test[50%:]", label_key="label_elevation"
  ),
}


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
  arguments.check_choice("dataset", args.dataset, TASKS)
  arguments.check_choice("crop", args.crop, ("", "inception", "random"))
  arguments.check_choice("split", args.split, ("full", "dev"))
  task = TASKS[args.dataset]
  config = default_config()
  config.total_steps = task.steps
  config.log_every_steps = 50
  # A published file beside which the command is run, if none is named.
  config.init_from = "B_16.npz"
  config.init_without = ("head/.*",)  # The new head is zero. [P] 3.2
  if args.model:
    config.model.update(names.find(args.model).model_dump(exclude_unset=True))
    config.init_from = f"{args.model.replace('/', '_')}.npz"
    # The published H/14 at 384 px leaves out 6 pixels.
    config.model.drop_remainder = (
      args.model == "H/14" and args.image_size == 384
    )
  config.model_from_init = not args.model
  config.keep_model_keys = ("image_size",)
  config.model.update(image_size=args.image_size, dtype="bfloat16")
  config.train.update(
    dataset=task.dataset,
    split=task.train if args.split == "full" else task.without_dev,
    batch_size=512,
    label_key=task.label_key,
    preprocess=_train_ops(task, args.image_size, args.crop or task.crop),
  )
  config.optimizer.update(
    name="sgd", momentum=0.9, grad_clip_norm=1.0, mu_dtype="bfloat16"
  )
  config.schedule.update(
    base_lr=args.lr or task.base_lr,
    warmup_steps=task.warmup_steps,
    decay="cosine",
  )
  if args.polyak:
    config.ema_decay = 0.9999
  config.checkpoint.every_steps = 500
  config.sweep.update(
    learning_rates=task.rates, train_split=task.without_dev, dev_split=task.dev
  )
  is_dev = args.split == "dev"
  config.evals["dev" if is_dev else "test"] = default_eval(
    type="classification",
    split=task.dev if is_dev else task.test,
    label_key=task.label_key,
    every_steps=None if task.steps < 2000 else 1000,
  )
  if task.dataset == "imagenet2012" and not is_dev:
    config.evals.real = default_eval(
      type="classification",
      dataset="imagenet2012_real",
      split="validation",
      label_key="real_label",
    )
  return smoke.shrink(config) if args.smoke else config


def _train_ops(task: Task, size: int, crop: str | None) -> str:
  if task.crop is None:
    ops = "decode|resize"
  elif crop == "random":
    ops = f"decode|resize({round(size * 448 / 384)})|random_crop"  # [BV]
  else:
    ops = "decode|inception_crop"
  return f"{ops}|flip_lr" if task.flip else ops
