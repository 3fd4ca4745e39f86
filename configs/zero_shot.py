"""Zero-shot classification of datasets by any checkpoint with a text tower.

  python -m vit_jax.evaluate --config=configs/zero_shot.py:datasets=cifar10 \\
      --checkpoint=clip-vit-base-patch32
  --config=configs/zero_shot.py:datasets=imagenet+cifar100,prompts=siglip

The model is the checkpoint's, and so is the tokenizer unless
`--config.train.tokenizer=PATH` names another. `prompts=siglip` prepares images
and texts as in big_vision, `prompts=clip` as in OpenAI's code. For your own
photographs:

  --config=configs/zero_shot.py:datasets=folder --config.data_dir=DIR

The names of the folders in DIR/test are those of the classes, with `a_red_car`
read as 'a red car'.
"""

import ml_collections

from vit_jax.config import arguments, names, smoke
from vit_jax.config.defaults import default_config
from vit_jax.configs.recipes import text_evals


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(args, datasets="imagenet", prompts="clip")
  arguments.check_choice("prompts", args.prompts, ("clip", "siglip"))
  config = default_config()
  config.model_from_init = True
  config.model.update(names.find("CLIP-B/32").model_dump(exclude_unset=True))
  config.model.image_size = 224
  config.objective.name = "contrastive"
  # Nothing is trained, but the schema requires these.
  config.total_steps = 1
  config.train.update(
    dataset="generated:captions=1",
    batch_size=256,
    preprocess="decode|resize|tokenize",
  )
  text_evals.add_zeroshot(config, args.datasets, prompts=args.prompts)
  return smoke.shrink(config) if args.smoke else config
