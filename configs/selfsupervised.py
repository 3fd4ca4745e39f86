"""Masked patch prediction, appendix B.1.2 of the ViT paper (arXiv 2010.11929).

  --config=configs/selfsupervised.py
  --config=configs/selfsupervised.py:target=pixels,mask_rate=0.15,data=i1k

Half of the patch embeddings of ViT-B/16 are corrupted, and the network predicts
the mean colour of each of these patches (`target=mean_colour`), the mean
colours of its 4 x 4 parts (`colours_4x4`) or all its pixels (`pixels`). The
paper chose the first, which is slightly worse with `mask_rate=0.15`. A run has
a million steps, 14 epochs of JFT-300M; the paper finds about the same accuracy
with ImageNet (`data=i1k`). It mentions no dropout, weight decay or other
network; `model` may also be B/32, L/16, ...

A run saves the network without a head. To fine-tune it:

  python -m vit_jax.sweep --workdir=runs/masked-imagenet \\
      --config=configs/finetune.py:dataset=imagenet2012,model=B/16 \\
      --config.init_from=runs/masked
"""

import ml_collections

from vit_jax.config import arguments, names, smoke
from vit_jax.configs.recipes import pretraining


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(
    args,
    model="B/16",
    data="jft",
    target="mean_colour",
    mask_rate=0.5,
    steps=1_000_000,
  )
  arguments.check_choice("data", args.data, pretraining.DATA)
  config = pretraining.on(args.data)
  config.total_steps = args.steps
  config.model.update(names.find(args.model).model_dump(exclude_unset=True))
  config.model.update(dropout_rate=0.0, head_bias_init=0.0)
  config.train.preprocess = "decode|inception_crop|keep('image')|flip_lr"
  config.objective.update(
    name="masked_patch",
    target=args.target,
    mask_rate=args.mask_rate,
    loss="softmax",
    label_smoothing=0.0,
  )
  config.optimizer.weight_decay = 0.0
  config.schedule.update(
    base_lr=2e-4, warmup_steps=10_000, decay="cosine", end_lr=0.0
  )
  del config.evals.val
  pretraining.measure_imagenet(config)
  return smoke.shrink(config) if args.smoke else config
