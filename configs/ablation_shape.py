"""Depth, width, MLP and patch: appendix D.2 of arXiv 2010.11929 (Figure 8).

  --config=configs/ablation_shape.py:depth=64
  --config=configs/ablation_shape.py:patch=16

The base is a ViT of 8 layers, width 1024, MLP 2048 and patches of 32 pixels. A
run changes one of these numbers, and the 5-shot accuracy on ImageNet is
compared. The paper goes up to 64 layers and does not list its other values:
those in `GRID` are our choice, as are 64 units per head, the learning rate and
the pre-training, which is that of B/32 in Table 3 on JFT-300M, or on `data` and
for `epochs`.
"""

import ml_collections

from vit_jax.config import arguments
from vit_jax.configs.recipes import paper_row, pretraining

BASE = {"depth": 8, "width": 1024, "mlp_dim": 2048, "patch": 32}
GRID = {
  "depth": (2, 4, 8, 16, 32, 64),
  "width": (256, 512, 1024, 2048, 4096),
  "mlp_dim": (512, 1024, 2048, 4096, 8192),
  "patch": (56, 32, 16, 8),
}
_HEAD_SIZE = 64


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(args, data="jft", epochs=0.0, **BASE)
  arguments.check_choice("data", args.data, pretraining.DATA)
  config = pretraining.build("B/32", args.data, epochs=args.epochs)
  config.model.update(
    variant=f"L/{args.patch}",
    width=args.width,
    depth=args.depth,
    mlp_dim=args.mlp_dim,
    num_heads=max(1, args.width // _HEAD_SIZE),
  )
  paper_row.nothing(config)
  pretraining.measure_imagenet(config)
  return pretraining.shrink(config, args.data) if args.smoke else config
