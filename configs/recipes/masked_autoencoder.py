"""Pre-training of masked autoencoders, with a network and an objective.

MAE (PRETRAIN.md of facebookresearch/mae) and FCMAE (Table 8 of arXiv
2301.00808) share it; a ViT has further tokens with weight decay.
"""

import ml_collections

from vit_jax.config.defaults import default_eval, default_fewshot_dataset
from vit_jax.configs.recipes import torchvision_eval
from vit_jax.errors import UserError

_BATCH_SIZE = 4096


def check_epochs(epochs: int, phase: str, pretraining: str) -> None:
  """Raises UserError for the argument `epochs` in another phase."""
  if epochs and phase != pretraining:
    raise UserError(
      f"Config argument epochs = {epochs} is of phase={pretraining}; for others"
      " set config.total_epochs."
    )


def pretraining(config: ml_collections.ConfigDict) -> None:
  """Sets data, optimizer, schedule and evaluations."""
  config.train.update(
    dataset="imagenet2012",
    batch_size=_BATCH_SIZE,
    preprocess="decode|random_resized_crop(scale=[0.2, 1.0])|keep('image')"
    "|flip_lr",
  )
  config.optimizer.update(
    name="adamw",
    weight_decay=0.05,
    b2=0.95,
    grad_clip_norm=None,
    # Everything except vectors, so tokens too.
    decay_mask=(r".*/kernel", r".*/mask_token"),
  )
  config.schedule.update(
    base_lr=1.5e-4 * _BATCH_SIZE / 256, warmup_steps="40 epochs", decay="cosine"
  )
  config.checkpoint.every_steps = 1000
  config.evals.knn = default_eval(type="knn", every_steps="50 epochs")
  config.evals.knn.datasets.imagenet = default_fewshot_dataset(
    dataset="imagenet2012",
    train_split="train",
    test_split="validation",
    preprocess=torchvision_eval.ops(256 / 224),
  )
  config.evals.val = default_eval(
    type="reconstruction", split="validation", every_steps="50 epochs"
  )
