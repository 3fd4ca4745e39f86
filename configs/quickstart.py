"""A small ViT on real handwritten digits: a minute or two on two cores.

scikit-learn's digits, 8 x 8 grey images of ten classes, come with the
installation, so nothing is downloaded.
"""

import ml_collections

from vit_jax.config import arguments, smoke
from vit_jax.config.defaults import (
  default_config,
  default_eval,
  default_fewshot_dataset,
)


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(args)
  config = default_config()
  config.total_steps = 1200
  config.log_every_steps = 50
  config.ema_decay = 0.99
  config.model.update(
    variant="Ti/4", width=96, depth=4, num_heads=3, mlp_dim=192
  )
  config.model.update(image_size=16, pool="gap", pos_embedding="learned_1d")
  config.train.update(dataset="digits", split="train", batch_size=128)
  config.train.preprocess = "decode|resize|pad(2)|random_crop"
  config.optimizer.update(name="adamw", weight_decay=0.05)
  config.objective.mixup_alpha = 0.2
  config.schedule.update(base_lr=2e-3, warmup_steps=100, decay="cosine")
  config.checkpoint.every_steps = 500
  config.evals.test = default_eval(
    type="classification", split="test", every_steps=300
  )
  config.evals.fewshot = default_eval(type="fewshot")
  config.evals.fewshot.datasets.digits = default_fewshot_dataset(
    dataset="digits", preprocess="decode|resize"
  )
  return smoke.shrink(config, classes=10) if args.smoke else config
