"""LiT (arXiv 2111.07991): texts that learn to match a frozen image tower.

  --config=configs/lit.py:data=webdataset:shards/{000..999}.tar \\
      --config.init_from=B_16.npz --config.train.tokenizer=c4_en.model
  --config=configs/lit.py:model=L/16,data=captions --config.data_dir=DIR

`init_from` gives the image tower: a checkpoint of any family of images, or of
two towers. Its architecture and image size are those of the tower, its head is
left out, and embeddings are as long as its features. `model` is the size of
the text tower, and of the image tower without `init_from`: B/32, B/16 or L/16;
`data` is a dataset of images and captions (docs/data.md).

The settings are those of big_vision's siglip_lit_coco.py, which pairs a
pretrained BERT with the sigmoid loss; the text tower here starts afresh and is
that of SigLIP, of 16 tokens. Weight decay is 0.01 by the schedule alone there,
10 times the rate here. Its random augmentation of images is left out.

`zeroshot=imagenet+cifar10` classifies these by words, `zeroshot=none` nothing,
and `val=SPLIT` searches this split of the data.
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
