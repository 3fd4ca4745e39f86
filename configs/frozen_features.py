"""Quality of the frozen features of any checkpoint, on several datasets.

  --config=configs/frozen_features.py:datasets=digits
  --config=configs/frozen_features.py:datasets=cifar100+oxford_iiit_pet+dtd
  --config=configs/frozen_features.py:datasets=folder,test_split=val \\
      --config.data_dir=DIR
  --config=configs/frozen_features.py:masks=ADEChallengeData2016

For vit_jax.evaluate: few-shot accuracy, k nearest neighbours and a linear
probe, with the architecture and image size of the checkpoint. Its head is not
used. `imagenet` is imagenet2012; few-shot accuracy draws from its first 65,000
training images, as in big_vision, and the others use all of them. `folder` is
the image folder DIR, DIR/train/CLASS/*.jpg, measured on the images of the split
`test_split`, by default test.

`masks` names a folder of images and masks, whose pixels a linear layer on patch
tokens classifies (`linear_segmentation`). The other evaluators then run only if
`datasets` is given too.
"""

import ml_collections

from vit_jax.config import arguments, smoke
from vit_jax.config.defaults import (
  default_config,
  default_eval,
  default_fewshot_dataset,
  default_segmentation_dataset,
)
from vit_jax.errors import UserError

# Name in the metrics -> what differs from the defaults. Big_vision's few-shot
# sets, CIFAR-10 and the digits, which need no download.
DATASETS = {
  "caltech101": {"dataset": "caltech101"},
  "cars196": {"dataset": "cars196"},
  "cifar10": {"dataset": "cifar10"},
  "cifar100": {"dataset": "cifar100"},
  "digits": {"dataset": "digits", "preprocess": "decode|resize"},
  "dtd": {"dataset": "dtd"},
  "folder": {"dataset": "folder"},
  "imagenet": {"dataset": "imagenet2012", "test_split": "validation"},
  "oxford_iiit_pet": {"dataset": "oxford_iiit_pet"},
  "uc_merced": {
    "dataset": "uc_merced",
    "train_split": "train[:1000]",
    "test_split": "train[1000:]",
  },
}


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(args, datasets="", test_split="", masks="")
  datasets = args.datasets or ("" if args.masks else "digits")
  names = datasets.split("+") if datasets else []
  for name in names:
    arguments.check_choice("datasets", name, DATASETS)
  if args.test_split and "folder" not in names:
    raise UserError(
      f"Config argument test_split = {args.test_split!r} is of datasets=folder;"
      " the other datasets have splits of their own."
    )
  config = default_config()
  config.model_from_init = True
  # Nothing is trained, but the schema requires these.
  config.total_steps = 1
  config.train.update(dataset="digits", batch_size=256)
  for kind in ("fewshot", "knn", "linear_probe") if names else ():
    config.evals[kind] = default_eval(type=kind)
    for name in names:
      config.evals[kind].datasets[name] = default_fewshot_dataset(
        **DATASETS[name]
      )
    if args.test_split:
      config.evals[kind].datasets.folder.test_split = args.test_split
  if "imagenet" in names:
    config.evals.fewshot.datasets.imagenet.train_split = "train[:65000]"
  if args.masks:
    config.evals.linear_segmentation = default_eval(type="linear_segmentation")
    config.evals.linear_segmentation.datasets.masks = (
      default_segmentation_dataset(directory=args.masks)
    )
  return smoke.shrink(config) if args.smoke else config
