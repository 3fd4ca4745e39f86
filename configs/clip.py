"""CLIP (arXiv 2103.00020): images and texts, by a softmax over the batch.

  --config=configs/clip.py:data=webdataset:shards/{000..999}.tar \\
      --config.train.tokenizer=bpe_simple_vocab_16e6.txt.gz
  --config=configs/clip.py:model=L/14,data=captions --config.data_dir=DIR

Models are B/32, B/16 and L/14; `data` is a dataset of images and captions
(docs/data.md). A run has 32 epochs of 400 million pairs in batches of 32,768.
Crops of at least 0.9 of an image are those of open_clip. Gains, biases and the
scale have no weight decay.

`zeroshot=imagenet+cifar10` names the datasets to classify by words, or `none`.
`val=SPLIT` measures retrieval on that split of the data.
"""

import ml_collections

from vit_jax.config import arguments, names, smoke
from vit_jax.config.defaults import default_config
from vit_jax.configs.recipes import text_evals

# Model -> learning rate.
RATES = {"B/32": 5e-4, "B/16": 5e-4, "L/14": 4e-4}
_PAIRS = 400_000_000
_EPOCHS = 32
_BATCH_SIZE = 32_768


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(
    args, model="B/32", data="captions", zeroshot="imagenet", val="none"
  )
  arguments.check_choice("model", args.model, RATES)
  config = default_config()
  config.total_steps = _EPOCHS * _PAIRS // _BATCH_SIZE
  config.log_every_steps = 50
  model = names.find(f"CLIP-{args.model}")
  config.model.update(model.model_dump(exclude_unset=True))
  config.model.update(image_size=224, dtype="bfloat16")
  config.model.image.weight_init = config.model.text.weight_init = "clip"
  config.train.update(
    dataset=args.data,
    batch_size=_BATCH_SIZE,
    preprocess="decode|random_resized_crop(scale=(0.9, 1.0))|tokenize",
  )
  config.objective.update(name="contrastive", loss="softmax", max_scale=100.0)
  config.optimizer.update(
    name="adamw",
    b1=0.9,
    b2=0.98,
    eps=1e-6,
    weight_decay=0.2,
    grad_clip_norm=None,
    decay_mask=(r".*/(kernel|embedding|pos_embedding)",),
  )
  config.schedule.update(
    base_lr=RATES[args.model], warmup_steps=2000, decay="cosine"
  )
  config.checkpoint.every_steps = 1000
  text_evals.add_zeroshot(config, args.zeroshot, every_steps=20_000)
  text_evals.add_retrieval(config, args.val, every_steps=20_000)
  return smoke.shrink(config) if args.smoke else config
