"""DINO, self-distillation without labels (arXiv 2104.14294).

  --config=configs/dino.py:model=S/16

`model` is S/16, S/8, B/16 or B/8, trained on ImageNet-1k without labels for 300
epochs, or as many as `epochs` says, with 8 crops of 96 pixels per image, or as
many as `local` says.

Numbers are those of the released code (facebookresearch/dino: main_dino.py and
README.md). There, queries, keys and values are one matrix, whose gradient is
clipped as a whole; here each of the three is clipped.
"""

import ml_collections

from vit_jax.config import arguments, names, smoke
from vit_jax.config.defaults import (
  default_config,
  default_eval,
  default_fewshot_dataset,
  default_view,
)
from vit_jax.configs.recipes import torchvision_eval

_MODELS = ("S/16", "S/8", "B/16", "B/8")
_BATCH = 1024
_JITTER = "color_jitter(0.4, 0.4, 0.2, 0.1, p=0.8)|greyscale(p=0.2)"


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(args, model="S/16", epochs=300, local=8)
  arguments.check_choice("model", args.model, _MODELS)
  config = default_config()
  config.log_every_steps = 100
  config.total_epochs = float(args.epochs)
  name = f"ViT-{args.model}"
  config.model.update(names.find(name).model_dump(exclude_unset=True))
  config.model.update(
    image_size=224,
    dtype="bfloat16",
    gelu="exact",
    normalize="imagenet",
    pos_embedding_resize="bicubic_offset",
    stochastic_depth_rate=0.1,
    weight_init="deit",
  )
  # The head of B has prototypes of unit length.
  config.objective.update(
    name="dino", unit_prototypes=args.model.startswith("B")
  )
  config.train.update(
    dataset="imagenet2012",
    batch_size=_BATCH,
    preprocess="decode|keep('image')",
  )
  views = config.train.views
  views.global_1 = _crop((0.4, 1.0), "gaussian_blur(p=1.0)")
  views.global_2 = _crop((0.4, 1.0), "gaussian_blur(p=0.1)|solarize(p=0.2)")
  if args.local:
    views.local = _crop((0.05, 0.4), "gaussian_blur(p=0.5)")
    views.local.update(count=args.local, size=96)
  config.optimizer.update(
    name="adamw",
    weight_decay="cosine(0.04, 0.4)",
    # Everything except vectors, so tokens and positions too.
    decay_mask=(r".*/(kernel|length|pos_embedding)", "cls|registers"),
    grad_clip_norm=3.0,
    grad_clip="parameter",
    freeze_until=((r"dino_head/prototypes/.*", "1 epochs"),),
  )
  if config.objective.unit_prototypes:
    config.optimizer.decay_mask = (
      r".*/(kernel|pos_embedding)",
      "cls|registers",
    )
  config.schedule.update(
    base_lr=5e-4 * _BATCH / 256,
    warmup_steps="10 epochs",
    decay="cosine",
    end_lr=1e-6,
  )
  config.checkpoint.every_steps = 1000
  config.evals.knn = default_eval(type="knn", every_steps="50 epochs")
  config.evals.knn.datasets.imagenet = default_fewshot_dataset(
    dataset="imagenet2012",
    train_split="train",
    test_split="validation",
    preprocess=torchvision_eval.ops(256 / 224),
  )
  if args.smoke:
    config = smoke.shrink(config)
    # Two epochs, as prototypes are frozen in the first.
    config.train.batch_size *= 2
  return config


def _crop(scale: tuple[float, float], last: str) -> ml_collections.ConfigDict:
  low, high = scale
  return default_view(
    preprocess=f"decode|random_resized_crop(scale=[{low}, {high}])|{_JITTER}"
    f"|{last}|flip_lr"
  )
