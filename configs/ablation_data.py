"""Amounts of data: Figures 3 and 4 of the ViT paper (arXiv 2010.11929).

  --config=configs/ablation_data.py:model=b/32,images=9M
  --config=configs/ablation_data.py:model=L/16,data=i1k,weight_decay=0.1

With `images` (9M, 30M, 90M or 300M, of JFT-300M), a run is one of Figure 4. All
settings except the number of images are those for the whole dataset, without
further regularisation, and the best 5-shot accuracy on ImageNet during the run
counts, as if it had stopped there. The number of steps is that of 7 epochs of
the whole dataset (our choice). A subset is the first images of the split, which
are a random sample if the data were prepared in random order, as
`vit_jax.prepare --from` does. b/32 is B/32 with half of every width (and 6
heads of 64 units, our choice); R50x1 and R152x2 are compared with it.

With `data` (i1k or i21k), a run is one of Figure 3: pre-training on a smaller
dataset, for which the paper tuned `weight_decay`, `dropout` and
`label_smoothing`. It does not list the values that it tried: `REGULARISATION`
is our grid, around the values of Table 3.
"""

import ml_collections

from vit_jax.config import arguments
from vit_jax.configs.recipes import paper_row, pretraining
from vit_jax.errors import UserError
from vit_jax.paper.datasets import DATASETS

_EPOCHS = 7.0
# Figure 4's sizes; the whole is 303 million.
IMAGES = {"9M": 9_000_000, "30M": 30_000_000, "90M": 90_000_000, "300M": None}
HALF_BASE = {"width": 384, "num_heads": 6, "mlp_dim": 1536}
REGULARISATION = {
  "weight_decay": (0.03, 0.1, 0.3),
  "dropout": (0.0, 0.1),
  "label_smoothing": (0.0, 1e-4, 0.1),
}
_UNSET = -1.0


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(
    args,
    model="B/32",
    images="",
    data="",
    epochs=0.0,
    weight_decay=_UNSET,
    dropout=_UNSET,
    label_smoothing=_UNSET,
  )
  if args.images and args.data not in ("", "jft"):
    raise UserError(
      f"Config argument images = {args.images} applies to JFT-300M only; remove"
      f" images or data = {args.data}."
    )
  data = args.data or "jft"
  arguments.check_choice("data", data, pretraining.DATA)
  is_half = args.model == "b/32"
  config = pretraining.build(
    "B/32" if is_half else args.model,
    data,
    epochs=args.epochs or (_EPOCHS if args.images else 0.0),
  )
  if is_half:
    config.model.update(HALF_BASE)
  if is_half or args.images:
    paper_row.nothing(config)
  if args.images:
    _take(config, args.images)
  if args.weight_decay != _UNSET:
    config.optimizer.weight_decay = args.weight_decay
  if args.dropout != _UNSET:
    config.model.dropout_rate = args.dropout
  if args.label_smoothing != _UNSET:
    config.objective.label_smoothing = args.label_smoothing
  pretraining.measure_imagenet(config)
  return pretraining.shrink(config, data) if args.smoke else config


def _take(config: ml_collections.ConfigDict, images: str) -> None:
  """Trains on a part, for as many steps as on the whole."""
  arguments.check_choice("images", images, IMAGES)
  whole = DATASETS[config.train.dataset].num_examples["train"]
  config.total_steps = round(
    config.total_epochs * whole / config.train.batch_size
  )
  config.total_epochs = None
  if IMAGES[images] is not None:
    config.train.split = f"train[:{IMAGES[images]}]"
