"""The model of `python -m vit_jax.benchmark step`: S/16, float32, batch 32.

  --config=configs/benchmark.py:model=B/16,batch=512,dtype=bfloat16
  --config=configs/benchmark.py:model=R50x1
  --config=configs/benchmark.py:model=Swin-T

`model` is a network's name, such as those in docs/families.md.
"""

import ml_collections

from vit_jax.config import arguments, names, smoke
from vit_jax.config.defaults import default_config, default_eval


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(args, model="S/16", batch=32, dtype="float32")
  config = default_config()
  config.total_steps = 1000
  config.log_every_steps = 5
  config.model.update(names.find(args.model).model_dump(exclude_unset=True))
  config.model.dtype = args.dtype
  config.train.update(
    dataset="generated:classes=1000,size=224,examples=1000",
    batch_size=args.batch,
  )
  config.train.preprocess = "decode|resize|flip_lr"
  config.optimizer.update(name="adamw", weight_decay=0.1)
  config.schedule.update(base_lr=1e-3, warmup_steps=100, decay="linear")
  config.evals.test = default_eval(type="classification")
  return smoke.shrink(config) if args.smoke else config
