"""Shrinks an experiment to seconds on a CPU, keeping its structure."""

import ml_collections

from vit_jax.config import defaults


def shrink(
  config: ml_collections.ConfigDict, *, classes: int = 4, max_labels: int = 1
) -> ml_collections.ConfigDict:
  """Makes `config` a run of four steps of a tiny model on generated data.

  Objective, optimizer, schedule shape, preprocessing and the kinds of
  evaluators stay; sizes, lengths and datasets shrink.

  Args:
    config: changed in place and returned.
    classes: classes of the generated data.
    max_labels: labels an image; above 1 the data is multi-label.
  """
  model = config.model
  patch = model.patch_size if "patch_size" in model else None
  patch = patch or int(str(model.variant).rsplit("/", 1)[-1])
  model.update(width=32, depth=2, num_heads=2, mlp_dim=64, num_classes=None)
  model.image_size = 2 * patch
  if isinstance(model.representation_size, int):
    model.representation_size = 32
  num_examples = max(64, 10 * classes)  # Enough for five shots of each.
  single_label = (
    f"generated:classes={classes},size={2 * patch},examples={num_examples}"
  )
  multi_label = f"{single_label},labels={max_labels}"
  data = multi_label if max_labels > 1 else single_label
  config.train.update(dataset=data, split="train", batch_size=16)
  config.update(total_steps=4, total_epochs=None, log_every_steps=1)
  config.update(data_dir=None, init_from=None)
  config.sweep.update(train_split=None, dev_split=None)
  config.schedule.warmup_steps = 1
  if config.schedule.decay == "steps":
    config.schedule.boundaries = (2, 3)
  config.checkpoint.update(every_steps=2, keep_every_steps=None)
  for entry in config.evals.values():
    entry.every_steps = 2
    entry.batch_size = 16
    if entry.type == "fewshot":
      entry.datasets = ml_collections.ConfigDict(
        {"generated": defaults.default_fewshot_dataset(dataset=single_label)}
      )
      entry.shots = (1, 5)
      if entry.l2_sweep:
        entry.l2_sweep = entry.l2_sweep[:2]
    else:
      entry.update(dataset=None, split="test")
  return config
