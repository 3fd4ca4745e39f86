"""ViT-H/14 on JFT-300M, the paper's largest run (Tables 2 and 3).

JFT-300M is not public: any TFDS dataset of the same form, images with a list of
labels out of 18,291 classes, can be prepared under the name `jft_300m`.
"""

import ml_collections

from vit_jax.config import arguments, smoke
from vit_jax.config.defaults import (
  default_config,
  default_eval,
  default_fewshot_dataset,
)

NUM_EXAMPLES = 303_000_000
NUM_CLASSES = 18_291
EPOCHS = 14


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(args)
  config = default_config()
  config.train.update(dataset="jft_300m", batch_size=4096)
  # About 1.26 labels an image; the list is cut or padded to a fixed length.
  config.train.preprocess = "decode|inception_crop|pad_labels(8)|flip_lr"
  config.train.label_key = "labels"
  config.total_steps = round(EPOCHS * NUM_EXAMPLES / config.train.batch_size)
  config.log_every_steps = 100
  config.model.update(variant="H/14", image_size=224, num_classes=NUM_CLASSES)
  config.model.update(representation_size="width", dtype="bfloat16")
  config.model.head_bias_init = -10.0
  config.objective.loss = "sigmoid"
  # Clipping is inferred: the paper states it only for ImageNet.
  config.optimizer.update(
    name="adamw", weight_decay=0.1, grad_clip_norm=1.0, mu_dtype="bfloat16"
  )
  config.schedule.update(
    base_lr=3e-4, warmup_steps=10_000, decay="linear", end_lr=1e-5
  )
  config.checkpoint.update(every_steps=1000, keep_every_steps=100_000)
  config.evals.val = default_eval(
    type="classification", split="validation", every_steps=20_000
  )
  config.evals.val.preprocess = "decode|resize_small(scale=1.1429)|central_crop"
  config.evals.val.label_key = "labels"
  config.evals.fewshot = default_eval(type="fewshot", every_steps=20_000)
  config.evals.fewshot.datasets.imagenet = default_fewshot_dataset(
    dataset="imagenet2012",
    train_split="train[:65000]",
    test_split="validation",
  )
  return (
    smoke.shrink(config, classes=18, max_labels=3) if args.smoke else config
  )
