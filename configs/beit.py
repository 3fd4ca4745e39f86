"""BEiT (arXiv 2106.08254) and BEiT v2 (arXiv 2208.06366).

  --config=configs/beit.py:model=B,tokenizer=FILE
  --config=configs/beit.py:model=B,phase=finetune --config.init_from=runs/beit
  --config=configs/beit.py:version=2,phase=tokenizer,teacher=clip-vit-base-patch16
  --config=configs/beit.py:version=2,model=B,tokenizer=runs/vqkd

`model` is B or L. The phases of the paper are pretrain, 800 epochs of
ImageNet-1k without labels (`epochs` sets another number), and finetune, 100
epochs for B and 50 for L. The phases of the published networks are

  pretrain22k   150 epochs of ImageNet-21k without labels
  labels22k     then 90 epochs of ImageNet-21k with labels
  finetune22k   then 30 epochs of ImageNet-1k, at 224 pixels or with
                `image_size=384` or 512

A network of pretrain22k can also be fine-tuned directly by phase=finetune, with
--config.model.normalize=minus_one_to_one, as the ImageNet-21k phases scale
pixels. The stochastic depth of L's finetune is 0.2, as in the released command;
the paper has 0.1 (--config.model.stochastic_depth_rate=0.1).

`version=2` is BEiT v2, which also predicts tokens from the class token. Its
phases are all at 224 pixels, and except for the first one with ImageNet's
statistics of pixels:

  tokenizer     100 epochs of ImageNet-1k in which VQ-KD, of size B, learns to
                reconstruct the features of `teacher` from tokens
  pretrain      1600 epochs of ImageNet-1k without labels
  finetune      then 100 epochs of ImageNet-1k for B and 50 for L
  labels22k     or 90 epochs of ImageNet-21k with labels
  finetune22k   and then 30 epochs of ImageNet-1k for B and 20 for L

With `epochs=300` the phases pretrain and finetune have the numbers of the short
schedule.

`tokenizer` is the encoder of DALL-E's dVAE, from which the released networks
learned; VQ-KD for BEiT v2, a published file or a run of phase=tokenizer; or a
file of `vit_jax.prepare tokenizer --checkpoint=...`. Without it, tokens are the
512 mean colours of the ViT paper, which need no file; the network learns less
from them.

Numbers are those of the papers and of the released code (microsoft/unilm, beit:
README.md, get_started_for_image_classification.md, run_beit_pretraining.py,
run_class_finetuning.py, optim_factory.py; beit2: PRETRAINING.md and the same
files), where the learning rate changes at every step, as here. That code
jitters the colours of images before it crops them, and starts classification
heads from a thousandth of a normal distribution; here images are cropped first,
which is faster, and heads start at zero. The dVAE sees the student's crop at a
smaller size; the released code makes both views from the original pixels.
"""

import dataclasses

import ml_collections

from vit_jax.config import arguments, names, smoke
from vit_jax.config.defaults import (
  default_config,
  default_eval,
  default_fewshot_dataset,
)
from vit_jax.configs.recipes import deit, torchvision_eval
from vit_jax.errors import UserError

_NAMES = {"B": "BEiT-B/16", "L": "BEiT-L/16"}
_BATCH = 2048
_TABLES = r".*/relative_bias/table"
# Images of this side in pixels are evaluated without a crop.
_LARGE = 384
# Phase -> epochs of pre-training and its warm-up.
_PRETRAINING = {
  "pretrain": (800, "10 epochs"),
  "pretrain22k": (150, 10_000),
}
# Size -> largest norm of gradients.
_CLIPS = {"B": 3.0, "L": 1.0}
# Of BEiT v2: epochs of pre-training, and the longest short schedule, which has
# no stochastic depth.
_EPOCHS, _SHORT = 1600, 300
_CLIP = 3.0
# Of VQ-KD: 64 images on each of 8 GPUs, and a rate for 128.
_TOKENIZER_BATCH, _TOKENIZER_RATE = 512, 5e-5 / 128
# Size -> layer whose patches the layers that predict from the class token see.
_EARLY_LAYERS = {"B": 9, "L": 21}


@dataclasses.dataclass(frozen=True)
class Labels:
  """A run with labels.

  Attributes:
    epochs: Passes over the training split.
    warmup: Epochs of warm-up.
    base_lr: Peak learning rate.
    layer_decay: Factor of the rate from each layer to the one below it.
    drop_rate: Stochastic depth.
    batch_size: Images of an update.
    weight_decay: Multiplied by the learning rate.
  """

  epochs: int
  warmup: int
  base_lr: float
  layer_decay: float
  drop_rate: float
  batch_size: int = 1024
  weight_decay: float = 0.05


# Version -> phase and size -> run.
_LABELS = {
  1: {
    ("finetune", "B"): Labels(100, 20, 4e-3, 0.65, 0.1),
    ("finetune", "L"): Labels(50, 5, 1e-3, 0.75, 0.2),
    ("labels22k", "B"): Labels(90, 5, 3e-3, 0.65, 0.2, 4096),
    ("labels22k", "L"): Labels(90, 5, 2e-3, 0.75, 0.2, 2048),
    ("finetune22k", "B"): Labels(30, 5, 2e-5, 0.85, 0.1, 512, 1e-8),
    ("finetune22k", "L"): Labels(30, 5, 2e-5, 0.9, 0.4, 512, 1e-8),
  },
  2: {
    ("finetune", "B"): Labels(100, 20, 5e-4, 0.6, 0.2),
    ("finetune", "L"): Labels(50, 5, 2e-4, 0.8, 0.2),
    ("labels22k", "B"): Labels(90, 20, 6e-4, 0.75, 0.1, 4096),
    ("labels22k", "L"): Labels(90, 20, 6e-4, 0.75, 0.2, 4096),
    ("finetune22k", "B"): Labels(30, 20, 5e-5, 0.75, 0.1),
    ("finetune22k", "L"): Labels(20, 5, 7e-5, 0.8, 0.25),
  },
}
# Size -> what differs in fine-tuning after the short schedule.
_AFTER_SHORT = {
  "B": {"layer_decay": 0.65, "drop_rate": 0.1},
  "L": {"base_lr": 5e-4},
}
_TOKENIZER = "tokenizer"
_WITH_LABELS = ("finetune", "labels22k", "finetune22k")
# Version -> phases.
_PHASES = {
  1: (*_PRETRAINING, *_WITH_LABELS),
  2: (_TOKENIZER, "pretrain", *_WITH_LABELS),
}


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(
    args,
    version=1,
    model="B",
    phase="pretrain",
    epochs=0,
    tokenizer="",
    teacher="",
    image_size=224,
  )
  arguments.check_choice("version", str(args.version), ("1", "2"))
  arguments.check_choice("model", args.model, _NAMES)
  is_second = args.version == 2
  arguments.check_choice("phase", args.phase, _PHASES[args.version])
  makes_tokenizer = args.phase == _TOKENIZER
  arguments.check_used(
    "teacher", args.teacher, makes_tokenizer, "version=2,phase=tokenizer"
  )
  arguments.check_used(
    "tokenizer",
    args.tokenizer,
    args.phase in _PRETRAINING,
    " or ".join(
      f"phase={phase}"
      for phase in _PHASES[args.version]
      if phase in _PRETRAINING
    ),
  )
  if makes_tokenizer:
    # VQ-KD has this size.
    arguments.check_choice("model", args.model, ("B",))
  if args.image_size != 224 and (args.phase != "finetune22k" or is_second):
    raise UserError(
      f"Config argument image_size = {args.image_size} is of"
      " phase=finetune22k with version=1; other phases are at 224 pixels."
    )
  tokenizer = args.tokenizer or "mean_colour"
  if makes_tokenizer:
    config = _tokenizer(args.epochs, args.teacher)
  elif args.phase in _WITH_LABELS:
    config = _with_labels(
      args.version, args.model, args.phase, args.image_size, args.epochs
    )
  elif is_second:
    config = _second_pretraining(args.model, args.epochs, tokenizer)
  else:
    config = _pretraining(args.model, args.phase, args.epochs, tokenizer)
  return smoke.shrink(config) if args.smoke else config


def _pretraining(
  model: str, phase: str, epochs: int, tokenizer: str
) -> ml_collections.ConfigDict:
  usual, warmup = _PRETRAINING[phase]
  config = default_config()
  config.log_every_steps = 100
  config.total_epochs = float(epochs or usual)
  _network(config, model, _normalize(1, phase))
  config.model.update(
    image_size=224,
    dtype="bfloat16",
    stochastic_depth_rate=0.1,
    # Fine-tuning copies the table of biases into each layer, and has the norm
    # after the pooling.
    pos_embedding_at="every_layer_shared",
    pool="cls",
    cls_token=None,
    norm_after_pool=False,
  )
  config.objective.update(name="beit", tokenizer=tokenizer)
  config.train.update(
    dataset="imagenet2012" if phase == "pretrain" else "imagenet21k",
    batch_size=_BATCH,
    preprocess=_preprocess("random_resized_crop"),
  )
  config.optimizer.update(
    name="adamw",
    weight_decay=0.05,
    # Everything except vectors and the class token.
    decay_mask=(r".*/kernel", "mask_token", _TABLES),
    grad_clip_norm=_CLIPS[model],
  )
  config.schedule.update(
    base_lr=1.5e-3, warmup_steps=warmup, decay="cosine", end_lr=1e-5
  )
  config.checkpoint.every_steps = 1000
  _neighbors(config)
  return config


def _neighbors(config: ml_collections.ConfigDict) -> None:
  config.evals.knn = default_eval(type="knn", every_steps="50 epochs")
  config.evals.knn.datasets.imagenet = default_fewshot_dataset(
    dataset="imagenet2012",
    train_split="train",
    test_split="validation",
    preprocess=torchvision_eval.ops(256 / 224),
  )


def _second_pretraining(
  model: str, epochs: int, tokenizer: str
) -> ml_collections.ConfigDict:
  """BEiT v2: what differs from BEiT."""
  config = _pretraining(model, "pretrain", epochs or _EPOCHS, tokenizer)
  is_short = config.total_epochs <= _SHORT
  config.model.stochastic_depth_rate = 0.0 if is_short else 0.1
  config.objective.update(
    fill_masks=True, head_layers=2, early_layers=_EARLY_LAYERS[model]
  )
  config.train.preprocess = _preprocess("random_resized_crop(scale=[0.2, 1.0])")
  config.optimizer.update(b2=0.98 if is_short else 0.999, grad_clip_norm=_CLIP)
  return config


def _tokenizer(epochs: int, teacher: str) -> ml_collections.ConfigDict:
  """VQ-KD, of BEiT v2: TOKENIZER.md, run_vqkd_training.py, datasets.py."""
  config = default_config()
  config.log_every_steps = 100
  config.total_epochs = float(epochs or 100)
  config.model.update(
    variant="B/16",
    image_size=224,
    pool="gap",
    cls_token=True,
    key_bias=False,
    gelu="exact",
    pos_embedding_resize="bicubic_offset",
    dtype="bfloat16",
  )
  config.objective.update(name="vqkd", teacher=teacher or None)
  config.train.update(
    dataset="imagenet2012",
    batch_size=_TOKENIZER_BATCH,
    preprocess="decode|random_resized_crop|keep('image')|flip_lr",
  )
  config.optimizer.update(
    name="adamw",
    b2=0.99,
    weight_decay=1e-4,
    decay_mask=(r".*/kernel",),
    grad_clip_norm=None,
  )
  config.schedule.update(
    base_lr=_TOKENIZER_RATE * _TOKENIZER_BATCH,
    warmup_steps="10 epochs",
    decay="cosine",
    end_lr=1e-5,
  )
  config.checkpoint.every_steps = 1000
  _neighbors(config)
  return config


def _preprocess(crop: str) -> str:
  return f"decode|{crop}|color_jitter(0.4, 0.4, 0.4)|keep('image')|flip_lr"


def _with_labels(
  version: int, model: str, phase: str, image_size: int, epochs: int
) -> ml_collections.ConfigDict:
  """DeiT's augmentation of single copies, with a decay over layers."""
  run = _LABELS[version][phase, model]
  if epochs:
    if version == 1 or phase != "finetune":
      raise UserError(
        f"Config argument epochs = {epochs} is of phase=pretrain, and of"
        " version=2,phase=finetune, where it is the number of epochs of"
        " pre-training; for others set config.total_epochs."
      )
    if epochs <= _SHORT:
      run = dataclasses.replace(run, **_AFTER_SHORT[model])
  normalize = _normalize(version, phase)
  config = deit.regularized(
    _NAMES[model], drop_rate=run.drop_rate, normalize=normalize
  )
  _network(config, model, normalize)
  config.model.image_size = image_size
  config.init_from = "runs/beit"
  config.total_epochs = float(run.epochs)
  config.train.update(batch_size=run.batch_size, repeats=1)
  config.optimizer.update(
    weight_decay=run.weight_decay,
    layer_decay=run.layer_decay,
    decay_mask=(r".*/kernel", _TABLES),
  )
  config.schedule.update(
    base_lr=run.base_lr,
    warmup_steps=f"{run.warmup} epochs",
    decay="cosine",
    end_lr=1e-6,
  )
  if phase != "finetune22k":
    config.allow_change = (
      "model.pool, model.norm_after_pool, model.pos_embedding_at"
    )
  if phase == "finetune22k" or (version, phase) == (1, "labels22k"):
    config.objective.update(mixup_alpha=0.0, cutmix_alpha=0.0)
  if phase == "labels22k":
    config.train.dataset = "imagenet21k"
    config.optimizer.grad_clip_norm = _CLIPS[model] if version == 1 else None
    # ImageNet-21k has no validation split.
    del config.evals.val
  if image_size >= _LARGE:
    config.evals.val.preprocess = torchvision_eval.ops(1.0)
  return config


def _normalize(version: int, phase: str) -> str:
  """Statistics of the pixels."""
  is_halved = version == 1 and phase.endswith("22k")
  return "minus_one_to_one" if is_halved else "imagenet"


def _network(
  config: ml_collections.ConfigDict, model: str, normalize: str
) -> None:
  """The network as released."""
  config.model.update(names.find(_NAMES[model]).model_dump(exclude_unset=True))
  config.model.normalize = normalize
