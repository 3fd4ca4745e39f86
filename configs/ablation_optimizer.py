"""Adam or SGD for ResNets: Table 7 of the ViT paper (arXiv 2010.11929).

  --config=configs/ablation_optimizer.py:model=R50x1,optimizer=adam
  --config=configs/ablation_optimizer.py:model=R152x2,optimizer=sgd

Both pre-train on JFT-300M (or `data`) for 7 epochs (or `epochs`): Adam as in
Table 3, SGD as in Big Transfer; see configs/resnet.py.
"""

import ml_collections

from vit_jax.config import arguments
from vit_jax.configs.recipes import big_transfer, pretraining


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(
    args, model="R50x1", optimizer="adam", data="jft", epochs=7.0
  )
  recipes = {"adam": pretraining.build, "sgd": big_transfer.pretrain}
  arguments.check_choice("optimizer", args.optimizer, recipes)
  arguments.check_choice("data", args.data, pretraining.DATA)
  config = recipes[args.optimizer](args.model, args.data, epochs=args.epochs)
  return pretraining.shrink(config, args.data) if args.smoke else config
