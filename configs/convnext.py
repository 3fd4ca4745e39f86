"""ConvNeXt by its authors' recipes (arXiv 2201.03545).

  --config=configs/convnext.py:model=ConvNeXt-T
  --config=configs/convnext.py:model=ConvNeXt-B,phase=finetune384 \\
      --config.init_from=runs/convnext_b

Phases: `pretrain`, 300 epochs of ImageNet (T, S, B, L); `finetune384`, then 30
epochs at 384 pixels (B, L); `pretrain22k`, 90 epochs of ImageNet-21k (B, L,
XL); `finetune22k`, then 30 epochs of ImageNet, at 224 pixels or with
`image_size=384`. The published accuracies of `pretrain` are those of the moving
average of the parameters.

Numbers are those of the commands in facebookresearch/ConvNeXt, TRAINING.md. Its
networks were trained in float32 or with automatic mixed precision; here matrix
products are in bfloat16.
"""

import dataclasses

import ml_collections

from vit_jax.config import arguments, names, smoke
from vit_jax.config.defaults import default_config, default_eval
from vit_jax.configs.recipes import torchvision_eval
from vit_jax.errors import UserError


@dataclasses.dataclass(frozen=True)
class Phase:
  """A run of the recipe.

  Attributes:
    rates: Model -> rate of stochastic depth.
    dataset: TFDS name.
    epochs: Passes over its training split.
    warmup: Epochs of warmup.
    image_size: Side of the images, pixels.
    base_lr: Peak learning rate.
    batch_size: Images of an update.
    weight_decay: Multiplied by the learning rate.
    layer_decay: Factor on the rate from a layer to that below; None: none.
    mixes: True with mixup and CutMix.
    keeps_head: False starts a new head instead of that of `init_from`.
    averaged: Models of which the running average is evaluated.
  """

  rates: dict[str, float]
  dataset: str = "imagenet2012"
  epochs: int = 30
  warmup: int = 0
  image_size: int = 224
  base_lr: float = 5e-5
  batch_size: int = 512
  weight_decay: float = 1e-8
  layer_decay: float | None = None
  mixes: bool = False
  keeps_head: bool = False
  averaged: tuple[str, ...] = ()


_T, _S, _B, _L, _XL = (
  f"ConvNeXt-{name}" for name in ("T", "S", "B", "L", "XL")
)
_PRETRAIN = Phase(
  rates={_T: 0.1, _S: 0.4, _B: 0.5, _L: 0.5},
  epochs=300,
  warmup=20,
  base_lr=4e-3,
  batch_size=4096,
  weight_decay=0.05,
  mixes=True,
  averaged=(_T, _S, _B, _L),
)
PHASES = {
  "pretrain": _PRETRAIN,
  "finetune384": Phase(
    rates={_B: 0.8, _L: 0.95},
    image_size=384,
    layer_decay=0.7,
    keeps_head=True,
  ),
  "pretrain22k": dataclasses.replace(
    _PRETRAIN,
    rates={_B: 0.1, _L: 0.1, _XL: 0.2},
    dataset="imagenet21k",
    epochs=90,
    warmup=5,
    averaged=(),
  ),
  "finetune22k": Phase(
    rates={_B: 0.2, _L: 0.3, _XL: 0.4}, layer_decay=0.8, averaged=(_XL,)
  ),
}
# From this side in pixels on, the whole image is resized to a square.
_SQUASHED = 384


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(args, model=_T, phase="pretrain", image_size=0)
  arguments.check_choice("phase", args.phase, PHASES)
  phase = PHASES[args.phase]
  if args.model not in phase.rates:
    raise UserError(
      f"Config argument model = {args.model!r} has no published recipe for"
      f" phase={args.phase}; it is for {', '.join(phase.rates)}."
    )
  config = _config(args.model, phase, args.image_size or phase.image_size)
  if args.phase.startswith("finetune"):
    # Default, relative to the directory of the command.
    config.init_from = f"runs/{args.model}"
    config.init_without = () if phase.keeps_head else ("head/.*",)
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
    stochastic_depth_rate=phase.rates[model],
  )
  config.train.update(
    dataset=phase.dataset,
    batch_size=phase.batch_size,
    preprocess="decode|random_resized_crop|randaug(2, 9, 0.5, True)|flip_lr",
  )
  config.objective.update(
    loss="softmax", label_smoothing=0.1, erase_probability=0.25
  )
  if phase.mixes:
    config.objective.update(mixup_alpha=0.8, cutmix_alpha=1.0)
  config.optimizer.update(
    name="adamw",
    weight_decay=phase.weight_decay,
    layer_decay=phase.layer_decay,
    grad_clip_norm=None,
  )
  config.schedule.update(
    base_lr=phase.base_lr,
    warmup_steps=f"{phase.warmup} epochs" if phase.warmup else 0,
    decay="cosine",
    end_lr=1e-6,
  )
  if model in phase.averaged:
    config.update(ema_decay=0.9999, ema_warmup=False)
  config.evals.val = default_eval(
    type="classification", split="validation", every_steps=5000
  )
  config.evals.val.preprocess = (
    "decode|resize(method='bicubic', antialias=True)"
    if image_size >= _SQUASHED
    else torchvision_eval.ops(256 / 224)
  )
  if phase.dataset == "imagenet21k":
    del config.evals.val  # It has no validation split.
  return config
