"""Masked autoencoders (arXiv 2111.06377).

  --config=configs/mae.py:model=B
  --config=configs/mae.py:model=B,phase=finetune --config.init_from=runs/mae

`model` is B, L or H. The phases are pretrain, 800 epochs of ImageNet-1k without
labels, or as many as `epochs` says (the released networks were trained for
1600), and finetune, 100 epochs for B and 50 for L and H, at 224 pixels. The
paper also has 87.8 % for H at 448 pixels; settings for it are not published.

Numbers are those of the released code (facebookresearch/mae: PRETRAIN.md,
FINETUNE.md, main_finetune.py), where the learning rate changes at every step,
as here. There, heads start at N(0, 2e-5^2); here at zeros.
"""

import ml_collections

from vit_jax.config import arguments, names, smoke
from vit_jax.config.defaults import default_config
from vit_jax.configs.recipes import deit, masked_autoencoder

_NAMES = {"B": "ViT-B/16", "L": "ViT-L/16", "H": "ViT-H/14"}
_FINETUNING_BATCH = 1024
# Size -> epochs, rate of a batch of 256, layer decay and stochastic depth.
_FINETUNING = {
  "B": (100.0, 5e-4, 0.65, 0.1),
  "L": (50.0, 1e-3, 0.75, 0.2),
  "H": (50.0, 1e-3, 0.75, 0.3),
}


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(args, model="B", phase="pretrain", epochs=0)
  arguments.check_choice("model", args.model, _NAMES)
  arguments.check_choice("phase", args.phase, ("pretrain", "finetune"))
  masked_autoencoder.check_epochs(args.epochs, args.phase, "pretrain")
  if args.phase == "pretrain":
    config = _pretraining(args.model, args.epochs or 800)
  else:
    config = _finetuning(args.model)
  return smoke.shrink(config) if args.smoke else config


def _pretraining(model: str, epochs: int) -> ml_collections.ConfigDict:
  config = default_config()
  config.log_every_steps = 100
  config.total_epochs = float(epochs)
  _network(config, model)
  config.model.update(
    pos_embedding_init="sincos2d", image_size=224, dtype="bfloat16"
  )
  config.objective.name = "mae"
  masked_autoencoder.pretraining(config)
  config.optimizer.update(
    # Everything except vectors, so tokens too.
    decay_mask=(r".*/kernel", r"cls|registers|.*/mask_token"),
    freeze=r"Transformer/posembed_input/.*",
  )
  return config


def _finetuning(model: str) -> ml_collections.ConfigDict:
  """DeiT's augmentation of single copies, with a decay over layers."""
  epochs, rate, layer_decay, drop_rate = _FINETUNING[model]
  config = deit.regularized(_NAMES[model], drop_rate=drop_rate)
  _network(config, model)
  config.init_from = "runs/mae"
  # Pools the mean of the patches without the class token, then normalises it.
  config.model.update(pool="gap", cls_token=True, norm_after_pool=True)
  config.allow_change = "model.pool, model.norm_after_pool"
  config.total_epochs = epochs
  config.train.update(batch_size=_FINETUNING_BATCH, repeats=1)
  config.optimizer.layer_decay = layer_decay
  config.schedule.update(
    base_lr=rate * _FINETUNING_BATCH / 256,
    warmup_steps="5 epochs",
    decay="cosine",
    end_lr=1e-6,
  )
  return config


def _network(config: ml_collections.ConfigDict, model: str) -> None:
  """The network as released: timm's, for pixels of ImageNet's statistics."""
  config.model.update(names.find(_NAMES[model]).model_dump(exclude_unset=True))
  config.model.update(
    gelu="exact", normalize="imagenet", pos_embedding_resize="bicubic"
  )
