"""Your own images: DIR/{train,val,test}/CLASS/*.jpg, or DIR/CLASS/*.jpg.

  --config=configs/finetune_folder.py --config.data_dir=DIR
  --config=configs/finetune_folder.py --config.data_dir=DIR \\
      --config.init_from=B_16.npz

The first line trains a small ViT from scratch at 32 px; set model.variant,
model.image_size and the schedule for larger images. The second one starts from
a published file or another run's workdir: the architecture and the image size
are the file's, the head is new, and the settings are those of a short
fine-tuning. Any other key can be set too: --config.model.image_size=384, or
--config.optimizer.freeze=backbone, which trains only the head.

  --config=configs/finetune_folder.py:regression --config.data_dir=DIR \\
      --config.train.dataset=csv:ages.csv,target=age

learns numbers instead of classes, those in a column of DIR/ages.csv.
"""

import ml_collections

from vit_jax.config import arguments, smoke
from vit_jax.config.defaults import IfInitFrom, default_config, default_eval


def get_config(args: str | None = None) -> ml_collections.ConfigDict:
  args = arguments.parse(args, regression=False)
  config = default_config()
  # Fewer images give a shorter run, as more passes would only memorise them.
  config.total_steps = IfInitFrom(1000, otherwise=4000)
  config.max_epochs = IfInitFrom(100, otherwise=200)
  config.log_every_steps = 20
  config.ema_decay = IfInitFrom(None, otherwise=0.999)
  config.model_from_init = True
  config.init_without = ("head/.*",)
  config.model.update(
    variant="Ti/4", width=128, depth=6, num_heads=4, mlp_dim=256
  )
  config.model.update(image_size=32, pool="gap")
  config.train.update(dataset="folder", split="train")
  config.train.batch_size = IfInitFrom(64, otherwise=128)
  config.train.preprocess = "decode|inception_crop(area_min=30)|flip_lr"
  kind = "classification"
  if args.regression:
    kind = "regression"
    config.train.dataset = "csv:labels.csv"
    # A smaller crop could leave out what a number depends on.
    config.train.preprocess = "decode|inception_crop(area_min=80)|flip_lr"
    config.objective.loss = "mse"
  else:
    config.objective.label_smoothing = 0.1
  # Fine-tuning as in the paper (Table 4) and its code, on smaller batches. From
  # scratch a small network learns faster with Adam.
  config.optimizer.name = IfInitFrom("sgd", otherwise="adamw")
  config.optimizer.weight_decay = IfInitFrom(0.0, otherwise=0.05)
  config.schedule.base_lr = IfInitFrom(0.03, otherwise=1e-3)
  config.schedule.warmup_steps = "10%"
  config.schedule.decay = "cosine"
  config.checkpoint.every_steps = IfInitFrom("20%", otherwise="12.5%")
  config.evals.test = default_eval(type=kind, split="test")
  config.evals.test.every_steps = IfInitFrom("20%", otherwise="12.5%")
  config.sweep.learning_rates = IfInitFrom(
    (0.003, 0.01, 0.03, 0.06), otherwise=(3e-4, 1e-3, 3e-3)
  )
  return smoke.shrink(config) if args.smoke else config
