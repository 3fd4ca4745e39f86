"""BEiT (arXiv 2106.08254).

  --config=configs/beit.py:model=B,tokenizer=FILE
  --config=configs/beit.py:model=B,phase=finetune --config.init_from=runs/beit

`model` is B or L; the phases are pretrain, 800 epochs of ImageNet-1k without
labels or as many as `epochs` says, and finetune, 100 epochs of B and 50 of L.

`tokenizer` is the encoder of DALL-E's dVAE, which the released networks learned
from, or a file of `vit_jax.prepare tokenizer --checkpoint=...`; without it,
tokens are the 512 mean colours of the ViT paper, which need no file and teach
less.

Numbers are those of the paper and of the released code (microsoft/unilm, beit:
README.md, run_beit_pretraining.py, optim_factory.py), whose rate changes at
every step. There, images are jittered before they are cropped, and
classification heads start at a thousandth of a normal; here they are cropped
first, which is quicker, and heads start at zeros. The dVAE sees the student's
crop made smaller, where the released code makes both views from the original
pixels.
"""

import ml_collections

from vit_jax.config import arguments, names, smoke
from vit_jax.config.defaults import (
  default_config,
  default_eval,
  default_fewshot_dataset,
)
from vit_jax.configs.recipes import deit

_NAMES = {"B": "BEiT-B/16", "L": "BEiT-L/16"}
_BATCH, _FINETUNING_BATCH = 2048, 1024
_TABLES = r".*/relative_bias/table"
# Size -> largest norm of gradients.
_CLIPS = {"B": 3.0, "L": 1.0}
# Size -> epochs, epochs of warm-up, rate, layer decay.
_FINETUNING = {"B": (100.0, 20, 4e-3, 0.65), "L": (50.0, 5, 1e-3, 0.75)}


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(
    args, model="B", phase="pretrain", epochs=800, tokenizer="mean_colour"
  )
  arguments.check_choice("model", args.model, _NAMES)
  arguments.check_choice("phase", args.phase, ("pretrain", "finetune"))
  if args.phase == "pretrain":
    config = _pretraining(args.model, args.epochs, args.tokenizer)
  else:
    config = _finetuning(args.model)
  return smoke.shrink(config) if args.smoke else config


def _pretraining(
  model: str, epochs: int, tokenizer: str
) -> ml_collections.ConfigDict:
  config = default_config()
  config.log_every_steps = 100
  config.total_epochs = float(epochs)
  _network(config, model)
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
    dataset="imagenet2012",
    batch_size=_BATCH,
    preprocess="decode|random_resized_crop|color_jitter(0.4, 0.4, 0.4)"
    "|keep('image')|flip_lr",
  )
  config.optimizer.update(
    name="adamw",
    weight_decay=0.05,
    # All that is not a vector, but for the class token.
    decay_mask=(r".*/kernel", "mask_token", _TABLES),
    grad_clip_norm=_CLIPS[model],
  )
  config.schedule.update(
    base_lr=1.5e-3, warmup_steps="10 epochs", decay="cosine", end_lr=1e-5
  )
  config.checkpoint.every_steps = 1000
  config.evals.knn = default_eval(type="knn", every_steps="50 epochs")
  config.evals.knn.datasets.imagenet = default_fewshot_dataset(
    dataset="imagenet2012",
    train_split="train",
    test_split="validation",
    preprocess="decode|resize_small(scale=1.14286, method='bicubic',"
    " antialias=True)|central_crop",
  )
  return config


def _finetuning(model: str) -> ml_collections.ConfigDict:
  """DeiT's augmentation of single copies, with a decay over layers."""
  epochs, warmup, rate, layer_decay = _FINETUNING[model]
  config = deit.regularized(_NAMES[model], drop_rate=0.1)
  _network(config, model)
  config.init_from = "runs/beit"
  config.allow_change = (
    "model.pool, model.norm_after_pool, model.pos_embedding_at"
  )
  config.total_epochs = epochs
  config.train.update(batch_size=_FINETUNING_BATCH, repeats=1)
  config.optimizer.update(
    layer_decay=layer_decay, decay_mask=(r".*/kernel", _TABLES)
  )
  config.schedule.update(
    base_lr=rate,
    warmup_steps=f"{warmup} epochs",
    decay="cosine",
    end_lr=1e-6,
  )
  return config


def _network(config: ml_collections.ConfigDict, model: str) -> None:
  """The network as released, for pixels of ImageNet's statistics."""
  config.model.update(names.find(_NAMES[model]).model_dump(exclude_unset=True))
  config.model.normalize = "imagenet"
