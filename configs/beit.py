"""BEiT (arXiv 2106.08254).

  --config=configs/beit.py:model=B,tokenizer=FILE
  --config=configs/beit.py:model=B,phase=finetune --config.init_from=runs/beit

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

`tokenizer` is the encoder of DALL-E's dVAE, from which the released networks
learned, or a file of `vit_jax.prepare tokenizer --checkpoint=...`. Without it,
tokens are the 512 mean colours of the ViT paper, which need no file; the
network learns less from them.

Numbers are those of the paper and of the released code (microsoft/unilm, beit:
README.md, get_started_for_image_classification.md, run_beit_pretraining.py,
run_class_finetuning.py, optim_factory.py), where the learning rate changes at
every step, as here. That code jitters the colours of images before it crops
them, and starts classification heads from a thousandth of a normal
distribution; here images are cropped first, which is faster, and heads start at
zero. The dVAE sees the student's crop at a smaller size; the released code
makes both views from the original pixels.
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
# Size -> largest norm of gradients.
_CLIPS = {"B": 3.0, "L": 1.0}
# Phase -> epochs of pre-training and its warm-up.
_PRETRAINING = {
  "pretrain": (800, "10 epochs"),
  "pretrain22k": (150, 10_000),
}


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


_LABELS = {
  ("finetune", "B"): Labels(100, 20, 4e-3, 0.65, 0.1),
  ("finetune", "L"): Labels(50, 5, 1e-3, 0.75, 0.2),
  ("labels22k", "B"): Labels(90, 5, 3e-3, 0.65, 0.2, 4096),
  ("labels22k", "L"): Labels(90, 5, 2e-3, 0.75, 0.2, 2048),
  ("finetune22k", "B"): Labels(30, 5, 2e-5, 0.85, 0.1, 512, 1e-8),
  ("finetune22k", "L"): Labels(30, 5, 2e-5, 0.9, 0.4, 512, 1e-8),
}
_PHASES = (*_PRETRAINING, *dict.fromkeys(phase for phase, _ in _LABELS))


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(
    args,
    model="B",
    phase="pretrain",
    epochs=0,
    tokenizer="mean_colour",
    image_size=224,
  )
  arguments.check_choice("model", args.model, _NAMES)
  arguments.check_choice("phase", args.phase, _PHASES)
  if args.image_size != 224 and args.phase != "finetune22k":
    raise UserError(
      f"Config argument image_size = {args.image_size} is of"
      " phase=finetune22k; the other phases are at 224 pixels."
    )
  if args.phase in _PRETRAINING:
    config = _pretraining(args.model, args.phase, args.epochs, args.tokenizer)
  else:
    config = _with_labels(args.model, args.phase, args.image_size)
  return smoke.shrink(config) if args.smoke else config


def _pretraining(
  model: str, phase: str, epochs: int, tokenizer: str
) -> ml_collections.ConfigDict:
  usual, warmup = _PRETRAINING[phase]
  config = default_config()
  config.log_every_steps = 100
  config.total_epochs = float(epochs or usual)
  _network(config, model, _normalize(phase))
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
    preprocess="decode|random_resized_crop|color_jitter(0.4, 0.4, 0.4)"
    "|keep('image')|flip_lr",
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
  config.evals.knn = default_eval(type="knn", every_steps="50 epochs")
  config.evals.knn.datasets.imagenet = default_fewshot_dataset(
    dataset="imagenet2012",
    train_split="train",
    test_split="validation",
    preprocess=torchvision_eval.ops(256 / 224),
  )
  return config


def _with_labels(
  model: str, phase: str, image_size: int
) -> ml_collections.ConfigDict:
  """DeiT's augmentation of single copies, with a decay over layers."""
  run = _LABELS[phase, model]
  normalize = _normalize(phase)
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
  if phase != "finetune":
    config.objective.update(mixup_alpha=0.0, cutmix_alpha=0.0)
  if phase == "labels22k":
    config.train.dataset = "imagenet21k"
    config.optimizer.grad_clip_norm = _CLIPS[model]
    # ImageNet-21k has no validation split.
    del config.evals.val
  if image_size >= _LARGE:
    config.evals.val.preprocess = torchvision_eval.ops(1.0)
  return config


def _normalize(phase: str) -> str:
  """Statistics of the pixels."""
  return "minus_one_to_one" if phase.endswith("22k") else "imagenet"


def _network(
  config: ml_collections.ConfigDict, model: str, normalize: str
) -> None:
  """The network as released."""
  config.model.update(names.find(_NAMES[model]).model_dump(exclude_unset=True))
  config.model.normalize = normalize
