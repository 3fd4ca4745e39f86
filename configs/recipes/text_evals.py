"""Evaluators of networks of images and texts, for experiment files."""

import ml_collections

from vit_jax.config import arguments
from vit_jax.config.defaults import (
  default_eval,
  default_retrieval_dataset,
  default_zeroshot_dataset,
)

# Name -> data, names and templates, as CLIP was measured with.
DATASETS = {
  "imagenet": {
    "dataset": "imagenet2012",
    "split": "validation",
    "class_names": "imagenet",
  },
  "cifar10": {
    "dataset": "cifar10",
    "split": "test",
    "class_names": "cifar10",
    "templates": ("cifar18",),
  },
  "cifar100": {
    "dataset": "cifar100",
    "split": "test",
    "class_names": "cifar100",
    "templates": ("cifar18",),
  },
  "folder": {"dataset": "folder", "split": "test"},
}
# SigLIP's are enlarged by 1 / 0.875 and cut, with the name alone as one more
# template.
SIGLIP_PREPROCESS = "decode|resize(scale=1.142857)|central_crop"


def add_zeroshot(
  config: ml_collections.ConfigDict,
  datasets: str,
  *,
  prompts: str = "clip",
  every_steps: int | None = None,
) -> None:
  """Adds the evaluator `zeroshot` of some datasets.

  Args:
    config: Changed in place.
    datasets: Names of `DATASETS`, joined by '+', or 'none'.
    prompts: 'clip' or 'siglip'; also decides templates and preprocessing.
    every_steps: Interval; None: after the last step.

  Raises:
    UserError: A dataset is not known.
  """
  if datasets == "none":
    return
  config.evals.zeroshot = default_eval(
    type="zeroshot", prompts=prompts, every_steps=every_steps
  )
  for name in datasets.split("+"):
    arguments.check_choice("zeroshot", name, DATASETS)
    data = default_zeroshot_dataset(**DATASETS[name])
    if prompts == "siglip":
      data.preprocess = SIGLIP_PREPROCESS
      data.templates = ("clip80", "{}")
    config.evals.zeroshot.datasets[name] = data


def add_retrieval(
  config: ml_collections.ConfigDict,
  split: str,
  *,
  preprocess: str | None = None,
  every_steps: int | None = None,
) -> None:
  """Adds the evaluator `retrieval` of a split of the training data.

  Args:
    config: Changed in place.
    split: Name of the split, or 'none'.
    preprocess: Host ops; None: those of CLIP.
    every_steps: Interval; None: after the last step.
  """
  if split == "none":
    return
  config.evals.retrieval = default_eval(
    type="retrieval", every_steps=every_steps
  )
  data = default_retrieval_dataset(dataset=config.train.dataset, split=split)
  if preprocess is not None:
    data.preprocess = preprocess
  config.evals.retrieval.datasets.val = data
