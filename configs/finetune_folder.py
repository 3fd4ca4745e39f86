"""Your own images: DIR/{train,val,test}/CLASS/*.{jpg,jpeg,png,webp,bmp}.

  --config=configs/finetune_folder.py --config.data_dir=DIR

The defaults train a small ViT at 32 px from scratch; set model.variant,
model.image_size and the schedule for larger images, or start from another
run's weights with --config.init_from=WORKDIR.
"""

import ml_collections

from vit_jax.config import arguments, smoke
from vit_jax.config.defaults import default_config, default_eval


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(args)
  config = default_config()
  config.total_steps = 4000
  config.log_every_steps = 50
  config.ema_decay = 0.999
  config.model.update(
    variant="Ti/4", width=128, depth=6, num_heads=4, mlp_dim=256
  )
  config.model.update(image_size=32, pool="gap")
  config.train.update(dataset="folder", split="train", batch_size=128)
  config.train.preprocess = "decode|inception_crop(area_min=30)|flip_lr"
  config.objective.label_smoothing = 0.1
  config.optimizer.update(name="adamw", weight_decay=0.05)
  config.schedule.update(base_lr=1e-3, warmup_steps=400, decay="cosine")
  config.checkpoint.every_steps = 500
  config.evals.test = default_eval(
    type="classification", split="test", every_steps=500
  )
  return smoke.shrink(config) if args.smoke else config
