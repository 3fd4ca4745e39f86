"""ConvNeXt and V2 by their authors' recipes (arXiv 2201.03545, 2301.00808).

  --config=configs/convnext.py:model=ConvNeXt-T
  --config=configs/convnext.py:model=ConvNeXt-B,phase=finetune384 \\
      --config.init_from=runs/convnext_b
  --config=configs/convnext.py:model=ConvNeXtV2-B,phase=fcmae
  --config=configs/convnext.py:model=ConvNeXtV2-B,phase=finetune \\
      --config.init_from=runs/fcmae
  --config=configs/convnext.py:model=ConvNeXtV2-B,phase=labels22k \\
      --config.init_from=convnextv2_base_1k_224_fcmae.pt

Phases: `pretrain`, 300 epochs of ImageNet (T, S, B, L); `finetune384`, then 30
epochs at 384 pixels (B, L); `pretrain22k`, 90 epochs of ImageNet-21k (T, S, B,
L, XL); `finetune22k`, then 30 epochs of ImageNet, at 224 pixels or with
`image_size=384`. The published accuracies of `pretrain` are those of the moving
average of the parameters.

Phases of ConvNeXt V2: `fcmae`, a fully convolutional masked autoencoder, 1600
epochs of ImageNet without labels, or as many as `epochs` says; from it, or from
a published one, `finetune`, 600 epochs of ImageNet for atto, femto, pico and
nano, 300 for T, 100 for B and L, and 50 for H; or (nano, T, B, L, H)
`labels22k`, 90 epochs of ImageNet-21k, and `finetune22k`, then 30 epochs of
ImageNet for B, L and H, and 90 for nano and T, at 224 pixels or with
`image_size=384`; for H, at 384 or with `image_size=512`.

Numbers are those of the commands in facebookresearch/ConvNeXt, TRAINING.md; for
T and S on ImageNet-21k, which it lacks, of the paper's Tables 5 and 6; and for
ConvNeXt V2 of its paper's Tables 8 to 13, whose learning rates are for 256
images, as in main_finetune.py of facebookresearch/ConvNeXt-V2. Random erasing
is that script's default. The rate of `finetune` for B and L is that of the
command for B in TRAINING.md, a tenth of Table 11's. The layers of T's decay are
groups of three blocks, as the paper says; the released code numbers them as
those of S, which gives lower rates below the last stage. The networks were
trained in float32 or with automatic mixed precision; here matrix products are
in bfloat16.
"""

import dataclasses

import ml_collections

from vit_jax.config import arguments, names, smoke
from vit_jax.config.defaults import default_config, default_eval
from vit_jax.configs.recipes import masked_autoencoder, torchvision_eval
from vit_jax.errors import UserError
from vit_jax.models.convnext import sizes
from vit_jax.models.convnext.section import ConvNeXtModel


@dataclasses.dataclass(frozen=True)
class Phase:
  """A run of the recipe, for the models in `rates`.

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
    by_block: True if each block is a layer, False if three are one.
    mixes: True with mixup of 0.8 and CutMix of 1.
    mixed: Model -> mixup and CutMix, where that differs.
    label_smoothing: Share of the labels that all classes have.
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
  by_block: bool = False
  mixes: bool = False
  mixed: dict[str, float] = dataclasses.field(default_factory=dict)
  label_smoothing: float = 0.1
  keeps_head: bool = False
  averaged: tuple[str, ...] = ()


_T, _S, _B, _L, _XL = (
  f"ConvNeXt-{name}" for name in ("T", "S", "B", "L", "XL")
)
_V2 = _A2, _F2, _P2, _N2, _T2, _B2, _L2, _H2 = tuple(
  f"ConvNeXtV2-{name}"
  for name in ("atto", "femto", "pico", "nano", "T", "B", "L", "H")
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
_PRETRAIN_22K = dataclasses.replace(
  _PRETRAIN,
  rates={_T: 0.0, _S: 0.0, _B: 0.1, _L: 0.1, _XL: 0.2},
  dataset="imagenet21k",
  epochs=90,
  warmup=5,
  averaged=(),
)
# Table 12 of the paper of ConvNeXt V2: as pre-training, with a layer decay. In
# groups of three blocks for B and L, and by single blocks for others (A.1).
_LABELS_22K = dataclasses.replace(
  _PRETRAIN_22K, rates={_B2: 0.1, _L2: 0.1}, layer_decay=0.8
)
# Tables 9 to 11.
_FINETUNE = dataclasses.replace(
  _PRETRAIN,
  rates={_T2: 0.2},
  warmup=40,
  base_lr=4 * 8e-4,
  batch_size=1024,
  layer_decay=0.9,
  by_block=True,
  averaged=(_T2,),
)
_FINETUNE_SMALL = dataclasses.replace(
  _FINETUNE,
  rates={_A2: 0.1, _P2: 0.0, _N2: 0.1},
  epochs=600,
  warmup=0,
  base_lr=4 * 2e-4,
  weight_decay=0.3,
  mixes=False,
  mixed={_P2: 0.3, _N2: 0.5},
  label_smoothing=0.2,
  averaged=(_A2, _P2, _N2),
)
# Phase -> its runs, for different models.
PHASES = {
  "pretrain": (_PRETRAIN,),
  "finetune384": (
    Phase(
      rates={_B: 0.8, _L: 0.95},
      image_size=384,
      layer_decay=0.7,
      keeps_head=True,
    ),
  ),
  "pretrain22k": (_PRETRAIN_22K,),
  "finetune": (
    _FINETUNE_SMALL,
    dataclasses.replace(
      _FINETUNE_SMALL,
      rates={_F2: 0.0},
      weight_decay=0.05,
      mixed={_F2: 0.3},
      averaged=(_F2,),
    ),
    _FINETUNE,
    dataclasses.replace(
      _FINETUNE,
      rates={_B2: 0.1, _L2: 0.2},
      epochs=100,
      warmup=20,
      base_lr=4 * 6.25e-4,
      layer_decay=0.6,
      by_block=False,
      averaged=(_B2, _L2),
    ),
    dataclasses.replace(
      _FINETUNE,
      rates={_H2: 0.3},
      epochs=50,
      warmup=10,
      base_lr=4 * 1.25e-3,
      layer_decay=0.75,
      averaged=(_H2,),
    ),
  ),
  "labels22k": (
    dataclasses.replace(
      _LABELS_22K, rates={_N2: 0.0, _T2: 0.0}, layer_decay=0.9, by_block=True
    ),
    _LABELS_22K,
    dataclasses.replace(_LABELS_22K, rates={_H2: 0.3}, by_block=True),
  ),
  "finetune22k": (
    Phase(
      rates={_T: 0.0, _S: 0.1, _B: 0.2, _L: 0.3, _XL: 0.4},
      layer_decay=0.8,
      averaged=(_XL,),
    ),
    # Table 13 of the paper of ConvNeXt V2.
    Phase(
      rates={_N2: 0.1, _T2: 0.1},
      epochs=90,
      layer_decay=0.9,
      by_block=True,
      averaged=(_N2, _T2),
    ),
    Phase(rates={_B2: 0.2, _L2: 0.3}, layer_decay=0.8, averaged=(_B2, _L2)),
    Phase(rates={_H2: 0.5}, image_size=384, layer_decay=0.85, by_block=True),
  ),
}
# From this side in pixels on, the whole image is resized to a square.
_SQUASHED = 384


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(
    args, model=_T, phase="pretrain", image_size=0, epochs=0
  )
  arguments.check_choice("phase", args.phase, (*PHASES, "fcmae"))
  masked_autoencoder.check_epochs(args.epochs, args.phase, "fcmae")
  if args.phase == "fcmae":
    config = _masked(args.model, args.image_size or 224, args.epochs or 1600)
    return smoke.shrink(config) if args.smoke else config
  runs = {model: run for run in PHASES[args.phase] for model in run.rates}
  if args.model not in runs:
    raise UserError(
      f"Config argument model = {args.model!r} has no published recipe for"
      f" phase={args.phase}; it is for {', '.join(runs)}."
    )
  phase = runs[args.model]
  config = _config(args.model, phase, args.image_size or phase.image_size)
  if not args.phase.startswith("pretrain"):
    # Default, relative to the directory of the command.
    config.init_from = f"runs/{args.model}"
    config.init_without = () if phase.keeps_head else ("head/.*",)
  if args.smoke:
    smoke.shrink(config)
  if phase.by_block:
    config.optimizer.layer_decay = None
    config.optimizer.lr_multipliers = _decay_by_block(
      config.model, phase.layer_decay
    )
  return config


def _decay_by_block(
  model: ml_collections.ConfigDict, decay: float
) -> tuple[tuple[str, float], ...]:
  """Factors on rates: `decay` from each block to that below, 1 for the head.

  The downsampling before a stage, and the stem, have the factor of the block
  above them.
  """
  section = ConvNeXtModel(variant=model.variant, depths=model.get("depths"))
  depths = sizes.convnext(section).depths
  parts = [
    f"stage{stage}/block{block:02}" if block > 1 else f"stage{stage}"
    for stage in range(len(depths), 0, -1)
    for block in range(depths[stage - 1], 0, -1)
  ]
  parts[-1] = "(stem|stage1)"
  return tuple((f"{part}/.*", decay**n) for n, part in enumerate(parts, 1))


def _masked(
  model: str, image_size: int, epochs: int
) -> ml_collections.ConfigDict:
  """The masked autoencoder of ConvNeXt V2, Table 8."""
  if model not in _V2:
    raise UserError(
      f"Config argument model = {model!r} has no published recipe for"
      f" phase=fcmae; it is for {', '.join(_V2)}."
    )
  config = default_config()
  config.total_epochs = float(epochs)
  config.log_every_steps = 100
  config.model.update(names.find(model).model_dump(exclude_unset=True))
  config.model.update(
    image_size=image_size, dtype="bfloat16", normalize="imagenet"
  )
  config.objective.name = "fcmae"
  masked_autoencoder.pretraining(config)
  return config


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
    loss="softmax",
    label_smoothing=phase.label_smoothing,
    erase_probability=0.25,
  )
  if phase.mixes:
    config.objective.update(mixup_alpha=0.8, cutmix_alpha=1.0)
  if model in phase.mixed:
    alpha = phase.mixed[model]
    config.objective.update(mixup_alpha=alpha, cutmix_alpha=alpha)
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
