"""Shrinks an experiment to seconds on a CPU, keeping its structure."""

import math

import ml_collections

from vit_jax import registry
from vit_jax.config import defaults

# Keys of a linear probe, by its protocol; shrunk networks have two layers.
_TRAINED = {"epochs": 2, "train_batch_size": 16}
_PROBES = {
  "logistic": {"max_iterations": 20},
  "dino": _TRAINED | {"blocks": (1,)},
  "dinov2": _TRAINED | {"blocks": (1,), "learning_rates": (1e-3, 0.1)},
  "mae": _TRAINED | {"warmup_epochs": 1},
}


def shrink(
  config: ml_collections.ConfigDict,
  *,
  classes: int = 4,
  max_labels: int = 1,
  enlarge: int = 1,
) -> ml_collections.ConfigDict:
  """Turns `config` into four steps of a tiny model on generated data.

  The kinds of objective, optimizer, schedule, preprocessing and evaluators are
  kept; sizes, lengths and datasets are reduced.

  Args:
    config: Config, which is changed in place and returned.
    classes: Number of classes of the generated data.
    max_labels: Labels per image; above 1 the data is multi-label.
    enlarge: Factor on the sides of images, for masks of blocks of patches;
      without it a shrunk network has only two by two patches.
  """
  config.model.num_classes = None
  registry.FAMILIES.get(config.model.name).shrink(config.model)
  config.model.image_size *= enlarge
  config.objective.update(registry.OBJECTIVES.get(config.objective.name).small)
  side = config.model.image_size
  for view in config.train.views.values():
    view.size = None if view.size is None else side // 2
  num_examples = max(64, 10 * classes)  # Enough for five shots of each.
  single_label = (
    f"generated:classes={classes},size={side},examples={num_examples}"
  )
  multi_label = f"{single_label},labels={max_labels}"
  data = multi_label if max_labels > 1 else single_label
  if config.objective.loss in ("mse", "mae"):
    data = f"generated:targets=2,size={side},examples={num_examples}"
  if "tokenize" in config.train.preprocess:
    data += ",captions=2"
    config.train.tokenizer = "bytes"
  batch_size = math.lcm(16, config.train.repeats)
  config.train.update(dataset=data, split="train", batch_size=batch_size)
  config.update(total_steps=4, total_epochs=None, log_every_steps=1)
  _keep_masks(config)
  config.update(data_dir=None, init_from=None, init_classes=None)
  config.paper_row.update(cells=(), settings=())
  config.sweep.update(train_split=None, dev_split=None)
  config.schedule.warmup_steps = 1
  if config.schedule.decay == "steps":
    config.schedule.boundaries = (2, 3)
  config.checkpoint.update(every_steps=2, keep_every_steps=None)
  for entry in config.evals.values():
    entry.every_steps = 2
    entry.batch_size = 16
    if "dataset" in entry:
      entry.update(dataset=None, split="test")
    is_of_masks = entry.type == "linear_segmentation"
    if "datasets" in entry and not is_of_masks:
      entry.datasets = ml_collections.ConfigDict(
        {"generated": _dataset(entry.type, data, single_label)}
      )
    small = {"shots": (1, 5), "neighbors": (1, 5)}
    small |= {"steps": 2, "warmup_steps": 1}
    if is_of_masks:
      small |= {"blocks": 1, "image_size": None, "mask_size": None}
    if "protocol" in entry:
      small |= _PROBES[entry.protocol]
    entry.update({key: small[key] for key in small if key in entry})
    if entry.get("protocol") == "logistic":
      entry.l2_sweep = entry.l2_sweep[:2]
  return config


def _keep_masks(config: ml_collections.ConfigDict) -> None:
  """Names the folders of masks, which are in files: none are generated."""
  for entry in config.evals.values():
    if entry.type == "linear_segmentation":
      for data in entry.datasets.values():
        data.directory = data.directory or config.data_dir


def _dataset(kind: str, data: str, single_label: str):
  """The dataset of an evaluator that names several."""
  if kind == "zeroshot":
    return defaults.default_zeroshot_dataset(dataset=data, split="test")
  if kind == "retrieval":
    return defaults.default_retrieval_dataset(dataset=data, split="test")
  return defaults.default_fewshot_dataset(dataset=single_label)
