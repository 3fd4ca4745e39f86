"""DINOv2, self-distillation of images and patches (arXiv 2304.07193).

  --config=configs/dinov2.py:model=L/16
  --config=configs/dinov2.py:model=L/16,recipe=dinov3
  --config=configs/dinov2.py:model=g/14,phase=high_resolution,data=folder \\
      --config.init_from=runs/g14
  --config=configs/dinov2.py:model=S/14,phase=distill,teacher=runs/g14

`model` is L/16, trained on ImageNet-1k for 100 epochs of 1250 updates, or L/14
or g/14, trained for 500 on your own data, which `data` names (`data=folder`,
for example): the authors' LVD-142M is not published. All learn without labels.

recipe=dinov3: L/16 as in facebookresearch/dinov3
(configs/train/vitl_im1k_lin834.yaml), with rotary instead of learned positions,
a separate head for patches, Sinkhorn, prototypes that are rows of a linear
layer, and tokens that start like DeiT's. The authors report 82.2 % for k-NN and
83.3 % for linear probes; DINOv2's recipe has 81.6 and 82.9.

phase=high_resolution: 10,000 updates with global crops of 518 pixels, from a
run of L/14 or g/14. The paper says no more: everything else is as before, with
schedules shortened to fit.

phase=distill: S/14, B/14 or L/14 learn from `teacher`, a run of this file or
another checkpoint of a DINOv2 with its heads, which is not trained. Numbers are
the paper's: nothing is masked, all patches are compared, and there is no
stochastic depth. An average of the student is exported.

`blur=released` makes the crops of the released networks: the first global crop
is never blurred, the second with probability 0.9, due to a mistake that the
authors have reported. `blur=paper` uses 1 and 0.1.

Numbers are those of the released code (facebookresearch/dinov2: configs/train,
configs/ssl_default_config.yaml, data/transforms.py, layers/block.py). One
difference remains: blurs use Pillow's filter.
"""

import math
from types import SimpleNamespace

import ml_collections

from vit_jax.config import arguments, names, smoke
from vit_jax.config.defaults import (
  default_config,
  default_eval,
  default_fewshot_dataset,
  default_view,
)
from vit_jax.configs.recipes import torchvision_eval
from vit_jax.errors import UserError

_STEPS_PER_EPOCH = 1250
_PHASES = ("pretrain", "high_resolution", "distill")
# Updates, and side of the global crops in pixels, of high_resolution.
_LAST_STEPS, _LAST_SIDE = 10_000, 518
_DISTILLED = ("S/14", "B/14", "L/14")
# Model -> epochs, batch size, epochs of warm-up, rate of a batch of 1024, last
# weight decay, first momentum of the teacher, decay over layers, side of local
# crops.
_RECIPES = {
  "L/16": (100, 2048, 10, 4e-3, 0.4, 0.992, 0.9, 96),
  "L/14": (500, 3072, 80, 2e-4, 0.2, 0.994, 1.0, 98),
  "g/14": (500, 3072, 80, 2e-4, 0.2, 0.994, 1.0, 98),
}
# Images on one GPU, among which KoLeo finds the nearest neighbours.
_IMAGES_OF_GPU = {"L/16": 64, "g/14": 12}
# Probability that the crops of each view are blurred.
_BLURS = {"released": (0.0, 0.9, 0.5), "paper": (1.0, 0.1, 0.5)}
_PROTOTYPES = r".*_head/prototypes/.*"
_JITTER = "color_jitter(0.4, 0.4, 0.2, 0.1, p=0.8)|greyscale(p=0.2)"


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(
    args,
    model="L/16",
    recipe="dinov2",
    phase="pretrain",
    data="imagenet2012",
    blur="released",
    local=8,
    teacher="",
  )
  arguments.check_choice("phase", args.phase, _PHASES)
  arguments.check_choice("recipe", args.recipe, ("dinov2", "dinov3"))
  arguments.check_choice("blur", args.blur, _BLURS)
  if args.recipe == "dinov3" and (args.model, args.phase) != (
    "L/16",
    "pretrain",
  ):
    raise UserError(
      f"Config argument recipe=dinov3 with model={args.model} and"
      f" phase={args.phase} is not known; the authors have published it for"
      " model=L/16 and phase=pretrain."
    )
  if args.phase == "distill":
    arguments.check_choice("model", args.model, _DISTILLED)
    if not (args.teacher or args.smoke):
      raise UserError(
        "Config argument teacher is not set, which phase=distill learns from:"
        " name a run, such as teacher=runs/dinov2-g14."
      )
  elif args.teacher:
    raise UserError(
      f'Config argument teacher = "{args.teacher}" is of phase=distill; add'
      " that, or leave it out."
    )
  else:
    models = _RECIPES if args.phase == "pretrain" else ("L/14", "g/14")
    arguments.check_choice("model", args.model, models)
  config = _pretrain(args)
  if args.recipe == "dinov3":
    _to_dinov3(config)
  if args.phase == "high_resolution":
    _to_high_resolution(config)
  elif args.phase == "distill":
    _to_distillation(config, None if args.smoke else args.teacher)
  # Masks are rectangles of four patches or more: a grid of 4 x 4 has room.
  return smoke.shrink(config, enlarge=2) if args.smoke else config


def _pretrain(args: SimpleNamespace) -> ml_collections.ConfigDict:
  # Crops and heads are those of training from scratch.
  recipe = _RECIPES.get(args.model, _RECIPES["L/14"])
  epochs, batch, warmup, rate, decay, momentum, layers, side = recipe
  config = default_config()
  config.log_every_steps = 100
  config.total_steps = epochs * _STEPS_PER_EPOCH
  _network(config, args.model)
  _objective(config, args.model, momentum)
  # Like all durations, it is shorter in a shorter run.
  over = _of_run(30, epochs)
  config.objective.teacher_temperature = f"linear(0.04, 0.07, over='{over}')"
  config.train.update(
    dataset=args.data, batch_size=batch, preprocess="decode|keep('image')"
  )
  _views(config, _BLURS[args.blur], args.local, side)
  config.optimizer.update(
    name="adamw",
    weight_decay=f"cosine(0.04, {decay})",
    # Everything except norms, LayerScale and biases: tokens, positions too.
    decay_mask=(
      r".*/(kernel|length|pos_embedding)",
      "cls|registers|mask_token",
    ),
    lr_multipliers=((r"embedding/.*", 0.2),),
    layer_decay=None if layers == 1 else layers,
    grad_clip_norm=3.0,
    grad_clip="module",
    freeze_until=((_PROTOTYPES, _of_run(1, epochs)),),
    freeze_until_mode="zero_rate",
  )
  config.schedule.update(
    base_lr=rate * math.sqrt(batch / 1024),
    warmup_steps=_of_run(warmup, epochs),
    decay="cosine",
    end_lr=1e-6,
  )
  config.checkpoint.every_steps = 1000
  config.evals.knn = default_eval(type="knn", every_steps=_of_run(10, epochs))
  config.evals.knn.datasets.imagenet = default_fewshot_dataset(
    dataset="imagenet2012",
    train_split="train",
    test_split="validation",
    preprocess=torchvision_eval.ops(256 / 224),
  )
  return config


def _to_dinov3(config: ml_collections.ConfigDict) -> None:
  """Applies the differences of facebookresearch/dinov3 on ImageNet-1k."""
  config.model.update(
    pos_embedding="none",
    rope=True,
    rope_base=100.0,
    rope_coordinates="unit",
    weight_init="deit",
  )
  config.objective.update(
    separate_patch_head=True, centering="sinkhorn", weight_norm=False
  )


def _to_high_resolution(config: ml_collections.ConfigDict) -> None:
  """Enlarges the global crops and shortens all schedules."""
  config.total_steps = _LAST_STEPS
  config.init_from = "runs/dinov2"
  config.model.image_size = _LAST_SIDE
  config.evals.knn.every_steps = "25%"


def _to_distillation(
  config: ml_collections.ConfigDict, teacher: str | None
) -> None:
  """[DV2]: section 5 and the table of hyper-parameters."""
  config.model.update(mlp="gelu", mlp_dim=None, stochastic_depth_rate=0.0)
  config.model.stochastic_depth_group = None
  config.objective.update(mask_probability=0.0, patches="all", teacher=teacher)
  config.train.batch_size = 2048
  config.schedule.base_lr = 1e-3


def _network(config: ml_collections.ConfigDict, model: str) -> None:
  name = f"ViT-{model}"
  config.model.update(names.find(name).model_dump(exclude_unset=True))
  config.model.update(
    image_size=224,
    dtype="bfloat16",
    gelu="exact",
    normalize="imagenet",
    pos_embedding_resize="bicubic_offset",
    layer_scale=1e-5,
    weight_init="dinov2",
    stochastic_depth_rate=0.3 if model == "L/16" else 0.4,
    stochastic_depth="constant",
    # Of 64 global crops of a GPU 38 are kept; 19 of 32 lie on one chip here.
    # g/14 has 24 on a GPU.
    stochastic_depth_group=24 if model == "g/14" else 32,
  )
  if model == "L/14":
    config.model.update(mlp="swiglu", mlp_dim=2736)
  if model == "g/14":
    # Width 1536 and depth 40, where the paper of ViT-g has 1408.
    config.model.update(
      width=1536, depth=40, num_heads=24, mlp="swiglu", mlp_dim=4096
    )


def _objective(
  config: ml_collections.ConfigDict, model: str, momentum: float
) -> None:
  is_small = model == "L/16"
  config.objective.update(
    name="dinov2",
    prototypes=65_536 if is_small else 131_072,
    bottleneck=256 if is_small else 384,
    separate_patch_head=not is_small,
    unit_prototypes=False,
    centering="mean" if is_small else "sinkhorn",
    teacher_momentum=f"cosine({momentum}, 1.0)",
    group=_IMAGES_OF_GPU.get(model, 32),
  )


def _of_run(epochs: float, whole: int) -> str:
  """Some of the `whole` epochs of a run, as a share of it."""
  return f"{100 * epochs / whole:g}%"


def _views(
  config: ml_collections.ConfigDict,
  blurs: tuple[float, float, float],
  local: int,
  side: int,
) -> None:
  views = config.train.views
  first, second, small = (f"gaussian_blur(p={p})" for p in blurs)
  views.global_1 = _crop((0.32, 1.0), first)
  views.global_2 = _crop((0.32, 1.0), f"{second}|solarize(p=0.2)")
  if local:
    views.local = _crop((0.05, 0.32), small)
    views.local.update(count=local, size=side)


def _crop(scale: tuple[float, float], last: str) -> ml_collections.ConfigDict:
  low, high = scale
  return default_view(
    preprocess=f"decode|random_resized_crop(scale=[{low}, {high}])|{_JITTER}"
    f"|{last}|flip_lr"
  )
