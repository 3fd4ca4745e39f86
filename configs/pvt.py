"""Pyramid Vision Transformer v2 by its authors' recipe (arXiv 2106.13797).

  --config=configs/pvt.py:model=PVTv2-b2

Models: PVTv2-b0 to -b5, and PVTv2-b2-li, whose attention is linear. All are
trained on ImageNet for 300 epochs at 224 pixels.

Numbers are those of the files in whai362/PVT, classification/main.py and
configs/pvt_v2/, which follow DeiT's. configs/deit.py says what differs from the
released code here, the batch size included.
"""

import ml_collections

from vit_jax.config import arguments, smoke
from vit_jax.configs.recipes import deit

# Model -> rate of stochastic depth, and largest norm of gradients.
_RECIPES = {
  "PVTv2-b0": (0.1, None),
  "PVTv2-b1": (0.1, None),
  "PVTv2-b2": (0.1, None),
  "PVTv2-b2-li": (0.1, None),
  "PVTv2-b3": (0.3, 1.0),
  "PVTv2-b4": (0.3, 1.0),
  "PVTv2-b5": (0.3, 1.0),
}


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(args, model="PVTv2-b2")
  arguments.check_choice("model", args.model, _RECIPES)
  drop_rate, clip_norm = _RECIPES[args.model]
  config = deit.regularized(args.model, drop_rate=drop_rate)
  deit.pretrain(config)
  config.model.normalize = "imagenet"
  config.optimizer.grad_clip_norm = clip_norm
  return smoke.shrink(config) if args.smoke else config
