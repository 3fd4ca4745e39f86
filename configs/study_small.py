"""The study of docs/study.md: a ViT and a ResNet on parts of CIFAR-10.

  --config=configs/study_small.py:network=vit,part=16 --config.data_dir=DIR
  --config=configs/study_small.py:network=resnet,part=1 --config.data_dir=DIR

Figure 4 of the ViT paper compares them on 9 to 300 million images; this study
does so on 3125, 12,500 and 50,000. `part` says which: 16, 4 or 1 for a
sixteenth, a quarter or all of the training images. Every run sees the same
number of images (`images`), and a step of either network costs the same within
2 %: about 13 million multiply-adds for an image of 48 px. All other settings
except the learning rate are shared. DIR is CIFAR-10 as an image folder.
"""

import ml_collections

from vit_jax.config import arguments, smoke
from vit_jax.config.defaults import default_config, default_eval

NETWORKS = ("vit", "resnet")
PARTS = (1, 4, 16)
NUM_TRAIN = 50_000
_NUM_DEV = 5000  # The last images of train, to choose learning rates by.
_BATCH_SIZE = 128
_RATES = (5e-4, 1e-3, 2e-3, 4e-3)
_BASE_LR = {"vit": 1e-3, "resnet": 1e-3}


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(args, network="vit", part=1, images=160_000)
  arguments.check_choice("network", args.network, NETWORKS)
  arguments.check_choice("part", str(args.part), map(str, PARTS))
  config = default_config()
  config.total_steps = max(1, args.images // _BATCH_SIZE)
  config.log_every_steps = 20
  if args.network == "vit":
    config.model.update(variant="Ti/6", width=64, depth=4, num_heads=4)
    config.model.update(mlp_dim=192, pool="gap")
  else:
    config.model.update(name="resnet", variant="R50x1")
    config.model.update(width=32, blocks=(1, 1, 1))
  config.model.image_size = 48
  num_images = NUM_TRAIN // args.part
  config.train.update(
    dataset="folder", split=f"train[:{num_images}]", batch_size=_BATCH_SIZE
  )
  config.train.preprocess = "decode|inception_crop(area_min=30)|flip_lr"
  config.optimizer.update(name="adamw", weight_decay=0.1, grad_clip_norm=1.0)
  config.schedule.update(
    base_lr=_BASE_LR[args.network],
    warmup_steps=config.total_steps // 20,
    decay="cosine",
  )
  config.checkpoint.every_steps = 500
  config.evals.test = default_eval(
    type="classification", split="test", every_steps=500
  )
  # Rates are compared on images that only part=1 trains on.
  config.sweep.update(
    learning_rates=_RATES,
    train_split=f"train[:{min(num_images, NUM_TRAIN - _NUM_DEV)}]",
    dev_split=f"train[{NUM_TRAIN - _NUM_DEV}:]",
  )
  return smoke.shrink(config) if args.smoke else config
