"""The study of docs/families_study.md: a ViT by DeiT's recipe, and relatives.

  --config=configs/study_families.py:run=plain --config.data_dir=DIR
  --config=configs/study_families.py:run=deit,images=5000
  --config=configs/study_families.py:run=unmixed
  --config=configs/study_families.py:run=distilled,teacher=runs/resnet
  --config=configs/study_families.py:run=resnet
  --config=configs/study_families.py:run=swin

The same small ViT is trained without a recipe (`plain`), by DeiT's recipe, by
that recipe without mixup and CutMix (`unmixed`), and by the recipe with a
ResNet as its teacher (`distilled`). They are compared with that ResNet and a
Swin. The data are the first `images` of CIFAR-10's training images, given as an
image folder DIR. A forward pass of each network costs four to six million
multiply-adds for an image of 32 px. All runs have the compute in which the
plain ViT sees `seen` images; a student is charged for the forward passes of its
teacher.

Images are padded by 4 pixels, cropped at random and mirrored, as in DeiT's code
for 32 px.
"""

import ml_collections

from vit_jax.config import arguments, smoke
from vit_jax.config.defaults import default_config, default_eval

RUNS = ("plain", "deit", "unmixed", "distilled", "resnet", "swin")
IMAGES = 5000
SEEN = 800_000  # Of the plain ViT: 160 epochs.
BATCH_SIZE = 192
# Millions of multiply-adds of a forward pass.
MACS = {
  "plain": 3.69,
  "deit": 3.69,
  "unmixed": 3.69,
  "distilled": 3.91,
  "resnet": 5.70,
  "swin": 3.57,
}
_REPEATS = 3
_BASE_LR = {"resnet": 4e-3}
_CROP = "decode|simple_random_crop"


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(
    args, run="plain", images=IMAGES, seen=SEEN, teacher=""
  )
  arguments.check_choice("run", args.run, RUNS)
  is_distilled = args.run == "distilled"
  arguments.check_used("teacher", args.teacher, is_distilled, "run=distilled")
  config = default_config()
  config.log_every_steps = 20
  _network(config.model, args.run)
  config.train.update(
    dataset="folder", split=f"train[:{args.images}]", batch_size=BATCH_SIZE
  )
  config.train.preprocess = f"{_CROP}|flip_lr"
  config.optimizer.update(name="adamw", weight_decay=0.05, grad_clip_norm=1.0)
  if args.run in ("deit", "unmixed", "distilled"):
    _deit(config)
  if args.run == "unmixed":
    config.objective.update(mixup_alpha=0.0, cutmix_alpha=0.0)
  if is_distilled:
    config.model.distillation = "token"
    config.objective.teacher = None if args.smoke else args.teacher or None
  seen = args.seen * cost("plain") / cost(args.run)
  config.total_steps = max(1, round(seen / BATCH_SIZE))
  config.schedule.update(
    base_lr=_BASE_LR.get(args.run, 2e-3),
    warmup_steps=config.total_steps // 20,
    decay="cosine",
  )
  config.checkpoint.every_steps = 500
  config.evals.test = default_eval(
    type="classification", split="test", every_steps=500
  )
  return smoke.shrink(config) if args.smoke else config


def cost(run: str) -> float:
  """Millions of multiply-adds to learn from an image, including a teacher's."""
  # Learning costs three forward passes, a teacher's answer one.
  return 3 * MACS[run] + (MACS["resnet"] if run == "distilled" else 0.0)


def _network(model: ml_collections.ConfigDict, run: str) -> None:
  """Networks of similar cost."""
  model.image_size = 32
  if run == "resnet":
    model.update(name="resnet", variant="R50x1", width=32, blocks=(1, 1, 1))
  elif run == "swin":
    model.update(name="swin", variant="T", width=32, depths=(2, 2))
    model.update(num_heads=(2, 4), patch_size=4, window_size=4)
  else:
    model.update(variant="Ti/8", width=64, depth=4, num_heads=4)
    model.update(mlp_dim=256, pool="cls")


def _deit(config: ml_collections.ConfigDict) -> None:
  """DeiT's augmentation and regularisation, as in `configs/deit.py`."""
  config.train.preprocess = f"{_CROP}|randaug(2, 9, 0.5, True)|flip_lr"
  config.train.repeats = _REPEATS
  config.model.stochastic_depth_rate = 0.1
  config.objective.update(
    label_smoothing=0.1,
    mixup_alpha=0.8,
    cutmix_alpha=1.0,
    erase_probability=0.25,
  )
