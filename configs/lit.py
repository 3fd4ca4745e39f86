"""LiT (arXiv 2111.07991): a text tower learns to match a frozen image tower.

  --config=configs/lit.py:data=webdataset:shards/{000..999}.tar \\
      --config.init_from=B_16.npz --config.train.tokenizer=c4_en.model
  --config=configs/lit.py:model=L/16,data=captions --config.data_dir=DIR

`init_from` gives the image tower: a checkpoint of any image network, or of two
towers. The tower keeps its architecture and image size, its head is left out,
and embeddings have the length of its features. `model` is the size of the text
tower and, without `init_from`, of the image tower: B/32, B/16 or L/16. `data`
is a dataset of images and captions (docs/data.md).

The settings are those of big_vision's siglip_lit_coco.py, which pairs a
pretrained BERT with the sigmoid loss; here the text tower is SigLIP's, for 16
tokens, and starts from random values. That file multiplies its weight decay of
0.01 by the schedule alone; here it is 10, multiplied by the learning rate,
which is the same. Its random augmentation of images is left out.

`zeroshot=imagenet+cifar10` names the datasets to classify by words, or `none`.
`val=SPLIT` measures retrieval on that split of the data.
"""

import ml_collections

from vit_jax.config import arguments, names, smoke
from vit_jax.config.defaults import default_config
from vit_jax.configs.recipes import text_evals

# Model -> variant of the text tower.
TEXTS = {"B/32": "B", "B/16": "B", "L/16": "L"}
_STEPS = 5_000


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(
    args, model="B/16", data="captions", zeroshot="imagenet", val="none"
  )
  arguments.check_choice("model", args.model, TEXTS)
  config = default_config()
  config.total_steps = _STEPS
  config.log_every_steps = 50
  config.init_part = "image"
  config.model_from_init = True
  model = names.find(f"SigLIP-{TEXTS[args.model]}/16")
  config.model.update(model.model_dump(exclude_unset=True))
  config.model.update(
    variant=args.model, image_size=224, dtype="bfloat16", bias_init=-2.71
  )
  config.model.image.pool = "cls"
  config.model.text.length = 16
  config.train.update(
    dataset=args.data,
    batch_size=512,
    preprocess="decode|resize|tokenize",
  )
  config.objective.update(name="contrastive", loss="sigmoid")
  config.optimizer.update(
    name="adamw", weight_decay=10.0, grad_clip_norm=1.0, freeze="image/.*"
  )
  config.schedule.update(
    base_lr=1e-3, warmup_steps=max(_STEPS * 3 // 100, 100), decay="cosine"
  )
  config.checkpoint.every_steps = 1000
  text_evals.add_zeroshot(
    config, args.zeroshot, prompts="siglip", every_steps=1000
  )
  text_evals.add_retrieval(
    config, args.val, preprocess="decode|resize", every_steps=1000
  )
  return smoke.shrink(config) if args.smoke else config
