"""Position embeddings: Table 8 of the ViT paper (arXiv 2010.11929), D.4.

  --config=configs/ablation_posembed.py:kind=learned_2d,at=every_layer

`kind` is none, learned_1d, learned_2d or relative; `at` is stem, every_layer
or every_layer_shared (one table for all layers). The network is ViT-B/16,
measured by its 5-shot accuracy on ImageNet. The paper does not say on which
data and for how long it was pre-trained: here as B/16 in Table 3 on JFT-300M,
or on `data` and for `epochs`.
"""

import ml_collections

from vit_jax.config import arguments
from vit_jax.configs.recipes import paper_row, pretraining

KINDS = ("none", "learned_1d", "learned_2d", "relative")
PLACES = ("stem", "every_layer", "every_layer_shared")


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(
    args, kind="learned_1d", at="stem", data="jft", epochs=0.0
  )
  arguments.check_choice("kind", args.kind, KINDS)
  arguments.check_choice("at", args.at, PLACES)
  arguments.check_choice("data", args.data, pretraining.DATA)
  config = pretraining.build("B/16", args.data, epochs=args.epochs)
  config.model.update(pos_embedding=args.kind, pos_embedding_at=args.at)
  paper_row.position_embeddings(config)
  pretraining.measure_imagenet(config)
  return pretraining.shrink(config, args.data) if args.smoke else config
