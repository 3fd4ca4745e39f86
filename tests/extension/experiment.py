"""Trains the toy network by the toy objective; run from this directory.

python -m vit_jax.train --config=experiment.py --workdir=/tmp/toy
"""

import ml_collections

from vit_jax.config import arguments, defaults, smoke


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(args)
  config = defaults.default_config("toy_convnet", "two_views", "spread")
  config.total_steps = 12
  config.log_every_steps = 1
  config.model.update(name="toy_convnet", channels=8, image_size=16)
  config.objective.update(name="two_views", momentum=0.8)
  config.train.update(
    dataset="generated:classes=4,size=20,examples=64", batch_size=16
  )
  config.train.preprocess = "decode"
  config.train.views.pair = defaults.default_view(
    count=2, preprocess="decode|inception_crop(area_min=50)|flip_lr"
  )
  config.schedule.update(base_lr=1e-2, warmup_steps=2)
  config.checkpoint.every_steps = 4
  config.evals.features = defaults.default_eval(type="spread", every_steps=4)
  return smoke.shrink(config) if args.smoke else config
