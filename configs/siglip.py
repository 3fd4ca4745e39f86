"""SigLIP (arXiv 2303.15343): images and texts, by a sigmoid of every pair.

  --config=configs/siglip.py:data=webdataset:shards/{000..999}.tar \\
      --config.train.tokenizer=c4_en.model
  --config=configs/siglip.py:model=So400m/14,data=captions --config.data_dir=DIR

Models are B/16, L/16 and So400m/14, with a text tower of the same size; `data`
is a dataset of images and captions (docs/data.md). A run has 40 billion pairs
in batches of 32,768, with the paper's bias and scale and its decay of 0.95 for
the second moment. The paper does not state the warm-up: here it is 3 % of the
steps, as in big_vision's siglip_lit_coco.py. The paper's weight decay of 1e-4
is multiplied by the schedule alone; here it is 0.1, multiplied by the learning
rate, which is the same.

`zeroshot=imagenet+cifar10` names the datasets to classify by words, or `none`.
`val=SPLIT` measures retrieval on that split of the data.
"""

import ml_collections

from vit_jax.config import arguments, names, smoke
from vit_jax.config.defaults import default_config
from vit_jax.configs.recipes import text_evals

# Model -> tokens of a text.
LENGTHS = {"B/16": 64, "L/16": 64, "So400m/14": 16}
_PAIRS = 40_000_000_000
_BATCH_SIZE = 32_768


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(
    args, model="B/16", data="captions", zeroshot="imagenet", val="none"
  )
  arguments.check_choice("model", args.model, LENGTHS)
  config = default_config()
  config.total_steps = _PAIRS // _BATCH_SIZE
  config.log_every_steps = 50
  model = names.find(f"SigLIP-{args.model}")
  config.model.update(model.model_dump(exclude_unset=True))
  config.model.update(image_size=224, dtype="bfloat16")
  config.model.text.length = LENGTHS[args.model]
  config.train.update(
    dataset=args.data,
    batch_size=_BATCH_SIZE,
    preprocess="decode|resize|tokenize",
  )
  config.objective.update(name="contrastive", loss="sigmoid")
  config.optimizer.update(
    name="adamw",
    b2=0.95,
    weight_decay=0.1,
    grad_clip_norm=1.0,
    mu_dtype="bfloat16",
  )
  config.schedule.update(
    base_lr=1e-3, warmup_steps=config.total_steps * 3 // 100, decay="cosine"
  )
  config.checkpoint.every_steps = 1000
  text_evals.add_zeroshot(
    config, args.zeroshot, prompts="siglip", every_steps=20_000
  )
  text_evals.add_retrieval(
    config, args.val, preprocess="decode|resize", every_steps=20_000
  )
  return smoke.shrink(config) if args.smoke else config
