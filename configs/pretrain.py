"""Pre-training as in Table 3 of the ViT paper (arXiv 2010.11929).

  --config=configs/pretrain.py:model=L/16,data=i21k
  --config=configs/pretrain.py:model=B/16,data=i1k,epochs=90

Models are B/16, B/32, L/16, L/32 and, on JFT, H/14, the ResNets R50x1 to R152x2
and the hybrids R50+B/32 to R50+L/16. `data` is i1k (TFDS's imagenet2012), i21k
(`imagenet21k`, which TFDS lacks: prepare your own under that name) or jft
(`jft_300m`, not public). Weight decay is multiplied by the learning rate, as in
the paper.

Tables 5 and 6 have results of networks without a row in Table 3: H/14 on i21k
and, on jft, R200x3 and R152x2 for 14 epochs. Their settings are inferred from
the other rows, as is the clipping of gradients on jft, which the paper states
only for ImageNet; configs/recipes/pretraining.py says how.
"""

import ml_collections

from vit_jax.config import arguments
from vit_jax.configs.recipes import pretraining


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(args, model="B/16", data="i1k", epochs=0.0)
  arguments.check_choice("data", args.data, pretraining.DATA)
  config = pretraining.build(args.model, args.data, epochs=args.epochs)
  return pretraining.shrink(config, args.data) if args.smoke else config
