"""Swin Transformers by their authors' recipes (arXiv 2103.14030, 2111.09883).

  --config=configs/swin.py:model=Swin-T
  --config=configs/swin.py:model=Swin-B,phase=finetune384 \\
      --config.init_from=runs/swin_b

Phases: `pretrain`, 300 epochs of ImageNet (Swin T, S and B at 224 pixels, Swin
V2 T, S and B at 256); `finetune384`, then 30 epochs at 384 pixels with windows
of 12 (B); `pretrain22k`, 90 epochs of ImageNet-21k (T, S, B, L); `finetune22k`,
then 30 epochs of ImageNet, at 224 pixels or, for B and L, with
`image_size=384`, in windows of 12. The head of a published fine-tuning starts
from the rows of ImageNet's classes in the pre-trained head:
`class_map=map22kto1k.txt`, a file in the authors' data/, does so here. Without
it the head is new.

Swin V2 B and L are pre-trained on ImageNet-21k at 192 pixels in windows of 12
and fine-tuned at 256 in windows of 16, or with `image_size=384` in windows of
24. Their position biases keep measuring offsets in windows of the pre-training
(`model.pretrained_window_sizes`). Windows of the phase `pretrain` are of 8; the
published networks with windows of 16 have --config.model.window_size=16 there.

Numbers are those of the files in microsoft/Swin-Transformer, config.py and
configs/, whose learning rates are for 512 images and grow with the batch. Its
networks were trained with automatic mixed precision; here matrix products are
in bfloat16.
"""

import dataclasses

import ml_collections

from vit_jax.config import arguments, names, smoke
from vit_jax.config.defaults import default_config, default_eval
from vit_jax.configs.recipes import torchvision_eval
from vit_jax.errors import UserError


@dataclasses.dataclass(frozen=True)
class Phase:
  """A run of the recipe, for the models in `drop_rates`.

  Attributes:
    drop_rates: Model -> rate of stochastic depth.
    dataset: TFDS name.
    epochs: Passes over its training split.
    warmup: Epochs of warmup.
    image_size: Side of the images, pixels; None: that of the model.
    base_lr: Peak learning rate for 512 images an update.
    end_lr: Last learning rate, for 512 images too.
    batch_size: Images of an update.
    weight_decay: Multiplied by the learning rate.
    keeps_head: False starts a new head instead of that of `init_from`.
    first_windows: Side of the windows of each stage in the pre-training, to
      which all windows are in proportion; None: windows do not grow.
  """

  drop_rates: dict[str, float]
  dataset: str = "imagenet2012"
  epochs: int = 30
  warmup: int = 5
  image_size: int | None = None
  base_lr: float = 2e-5
  end_lr: float = 2e-7
  batch_size: int = 1024
  weight_decay: float = 1e-8
  keeps_head: bool = False
  first_windows: tuple[int, ...] | None = None


_T, _S, _B, _L = (f"Swin-{name}" for name in ("T", "S", "B", "L"))
_PRETRAIN = Phase(
  drop_rates={
    _T: 0.2,
    _S: 0.3,
    _B: 0.5,
    "SwinV2-T": 0.2,
    "SwinV2-S": 0.3,
    "SwinV2-B": 0.5,
  },
  epochs=300,
  warmup=20,
  base_lr=5e-4,
  end_lr=5e-6,
  weight_decay=0.05,
)
_PRETRAIN_22K = dataclasses.replace(
  _PRETRAIN,
  drop_rates={_T: 0.1, _S: 0.2, _B: 0.2, _L: 0.2},
  dataset="imagenet21k",
  epochs=90,
  warmup=5,
  base_lr=1.25e-4,
  end_lr=1.25e-6,
  batch_size=4096,
)
_FINETUNE_22K = Phase(drop_rates=_PRETRAIN_22K.drop_rates)
# Of Swin V2, to which ImageNet-21k is shown at 192 pixels.
_SECOND_22K = {
  "drop_rates": {"SwinV2-B": 0.2, "SwinV2-L": 0.2},
  "first_windows": (12, 12, 12, 6),
}
# Phase -> its runs, for different models.
PHASES = {
  "pretrain": (_PRETRAIN,),
  "finetune384": (
    Phase(drop_rates={_B: 0.5}, image_size=384, keeps_head=True),
  ),
  "pretrain22k": (
    _PRETRAIN_22K,
    dataclasses.replace(
      _PRETRAIN_22K, **_SECOND_22K, image_size=192, weight_decay=0.1
    ),
  ),
  "finetune22k": (
    _FINETUNE_22K,
    dataclasses.replace(_FINETUNE_22K, **_SECOND_22K),
  ),
}
_RATES_ARE_FOR = 512  # Images.
# At this side in pixels whole images are resized, and windows are of 12.
_LARGE, _LARGE_WINDOW = 384, 12
# Windows in proportion: of 12 at 192 pixels, 16 at 256 and 24 at 384.
_PIXELS_A_PLACE = 16


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(
    args, model=_T, phase="pretrain", image_size=0, class_map=""
  )
  arguments.check_choice("phase", args.phase, PHASES)
  runs = {model: run for run in PHASES[args.phase] for model in run.drop_rates}
  if args.model not in runs:
    raise UserError(
      f"Config argument model = {args.model!r} has no published recipe for"
      f" phase={args.phase}; it is for {', '.join(runs)}."
    )
  phase = runs[args.model]
  if args.class_map and args.phase != "finetune22k":
    raise UserError(
      f"Config argument class_map = {args.class_map!r} is of"
      " phase=finetune22k, which starts from a head of other classes."
    )
  usual = 256 if args.model.startswith("SwinV2") else 224
  image_size = args.image_size or phase.image_size or usual
  config = _config(args.model, phase, image_size)
  if args.phase.startswith("finetune"):
    # Default, relative to the directory of the command.
    config.init_from = f"runs/{args.model}"
    keeps_head = phase.keeps_head or args.class_map
    config.init_without = () if keeps_head else ("head/.*",)
    config.init_classes = args.class_map or None
  return smoke.shrink(config) if args.smoke else config


def _config(
  model: str, phase: Phase, image_size: int
) -> ml_collections.ConfigDict:
  config = default_config()
  config.total_epochs = float(phase.epochs)
  config.log_every_steps = 100
  config.model.update(names.find(model).model_dump(exclude_unset=True))
  config.model.update(
    image_size=image_size,
    dtype="bfloat16",
    normalize="imagenet",
    stochastic_depth_rate=phase.drop_rates[model],
  )
  if phase.first_windows:
    config.model.update(
      window_size=image_size // _PIXELS_A_PLACE,
      # In pre-training these are its own windows, and the default. Named, they
      # are compared with those of the next phase.
      pretrained_window_sizes=phase.first_windows,
    )
  elif image_size >= _LARGE:
    config.model.window_size = _LARGE_WINDOW
  config.train.update(
    dataset=phase.dataset,
    batch_size=phase.batch_size,
    preprocess="decode|random_resized_crop|randaug(2, 9, 0.5, True)|flip_lr",
  )
  config.objective.update(
    loss="softmax",
    label_smoothing=0.1,
    mixup_alpha=0.8,
    cutmix_alpha=1.0,
    erase_probability=0.25,
  )
  config.optimizer.update(
    name="adamw", weight_decay=phase.weight_decay, grad_clip_norm=5.0
  )
  if "V2" in model:
    # Kernels that make position biases do not decay.
    config.optimizer.decay_mask = (r"(?!.*/position_).*/kernel",)
  scale = phase.batch_size / _RATES_ARE_FOR
  config.schedule.update(
    base_lr=phase.base_lr * scale,
    warmup_steps=f"{phase.warmup} epochs",
    decay="cosine",
    end_lr=phase.end_lr * scale,
  )
  config.evals.val = default_eval(
    type="classification", split="validation", every_steps=5000
  )
  # 256 pixels for a crop of 224, and in proportion for others, rounded down.
  larger = 256 * image_size // 224 / image_size
  config.evals.val.preprocess = (
    "decode|resize(method='bicubic', antialias=True)"
    if image_size >= _LARGE
    else torchvision_eval.ops(larger)
  )
  if phase.dataset == "imagenet21k":
    del config.evals.val  # It has no validation split.
  return config
