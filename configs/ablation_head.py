"""Class token or mean of the patches: appendix D.3 of arXiv 2010.11929.

  --config=configs/ablation_head.py:pool=gap

`pool` is cls or gap. At 8e-4, the learning rate that suits the class token, the
mean of the patches with a linear layer is much less accurate; at 3e-4 it is as
accurate. `lr` sets another rate. The appendix does not state the network and
the data: here they are ViT-B/16 as in Table 3 on JFT-300M, or on `data` and for
`epochs`.
"""

import ml_collections

from vit_jax.config import arguments
from vit_jax.configs.recipes import paper_row, pretraining

# From the labels of Figure 9 only, not checked otherwise.
RATES = {"cls": 8e-4, "gap": 3e-4}


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(args, pool="cls", lr=0.0, data="jft", epochs=0.0)
  arguments.check_choice("pool", args.pool, RATES)
  arguments.check_choice("data", args.data, pretraining.DATA)
  config = pretraining.build("B/16", args.data, epochs=args.epochs)
  config.model.pool = args.pool
  if args.pool == "gap":
    config.model.representation_size = None
  if args.pool == "gap" or args.lr:
    paper_row.nothing(config)
  config.schedule.base_lr = args.lr or RATES[args.pool]
  pretraining.measure_imagenet(config)
  return pretraining.shrink(config, args.data) if args.smoke else config
