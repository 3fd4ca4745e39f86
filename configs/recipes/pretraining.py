"""Pre-training as in Table 3 of the ViT paper, shared by experiment files."""

import dataclasses

import ml_collections

from vit_jax import registry
from vit_jax.config import names, smoke
from vit_jax.config.defaults import (
  default_config,
  default_eval,
  default_fewshot_dataset,
)
from vit_jax.configs.recipes import paper_row
from vit_jax.errors import UserError


@dataclasses.dataclass(frozen=True)
class Data:
  """A pre-training set and the settings shared by all networks on it.

  Attributes:
    dataset: TFDS name.
    weight_decay: Multiplied by the learning rate.
    decay: Shape of the learning rate after warmup.
    dropout_rate: Dropout of Vision Transformers.
    label_smoothing: Smoothing of the labels of the sigmoid loss.
    label_key: Feature that holds the label or labels.
    label_ops: Preprocessing of labels, if any.
    max_labels: Most labels of an image.
  """

  dataset: str
  weight_decay: float
  decay: str
  dropout_rate: float
  label_smoothing: float = 0.0
  label_key: str = "label"
  label_ops: str = ""
  max_labels: int = 1


DATA = {
  "i1k": Data("imagenet2012", 0.3, "cosine", 0.1, label_smoothing=1e-4),
  "i21k": Data("imagenet21k", 0.03, "linear", 0.1),
  # About 1.26 labels an image; the list is cut or padded to a fixed length.
  "jft": Data(
    "jft_300m",
    0.1,
    "linear",
    0.0,
    label_key="labels",
    label_ops="|pad_labels(8)",
    max_labels=8,
  ),
}

# (data, model) -> (epochs, base_lr). Table 3; where it has two lengths, the
# longer.
RECIPES = {
  ("i1k", "B/16"): (300, 3e-3),
  ("i1k", "B/32"): (300, 3e-3),
  ("i1k", "L/16"): (300, 3e-3),
  ("i1k", "L/32"): (300, 3e-3),
  ("i21k", "B/16"): (90, 1e-3),
  ("i21k", "B/32"): (90, 1e-3),
  ("i21k", "L/16"): (90, 1e-3),
  ("i21k", "L/32"): (90, 1e-3),
  ("jft", "B/16"): (7, 8e-4),
  ("jft", "B/32"): (7, 8e-4),
  ("jft", "L/32"): (7, 6e-4),
  ("jft", "L/16"): (14, 4e-4),
  ("jft", "H/14"): (14, 3e-4),
  ("jft", "R50x1"): (7, 1e-3),
  ("jft", "R50x2"): (7, 1e-3),
  ("jft", "R101x1"): (7, 8e-4),
  ("jft", "R152x1"): (7, 6e-4),
  ("jft", "R152x2"): (7, 6e-4),
  ("jft", "R50+B/16"): (7, 8e-4),
  ("jft", "R50+B/32"): (7, 8e-4),
  ("jft", "R50+L/32"): (7, 2e-4),
  ("jft", "R50+L/16"): (14, 4e-4),
}
# Networks that Tables 5 and 6 report and Table 3 leaves out. Inferred: every
# row on ImageNet-21k has one rate and lists 90 epochs; the largest ResNets have
# the smallest rate, and Table 6 has the epochs. R152x2 of 14 epochs is that of
# 7 for longer, as it is with the networks that Table 3 has twice.
INFERRED = {
  ("i21k", "H/14"): (90, 1e-3),
  ("jft", "R200x3"): (14, 6e-4),
}


def build(
  model: str, data: str, *, epochs: float = 0.0
) -> ml_collections.ConfigDict:
  """The config of a network and its pre-training set.

  Args:
    model: Such as 'B/16', 'R50+B/16' or 'R50x1'.
    data: A key of `DATA`.
    epochs: Length; 0: that of Table 3.

  Raises:
    UserError: Table 3 lacks this pair, and it is not inferred.
  """
  recipes = RECIPES | INFERRED
  if (data, model) not in recipes:
    known = ", ".join(f"model={m},data={d}" for d, m in recipes)
    raise UserError(
      f"Table 3 of the paper has no recipe for model={model} on"
      f" data={data}; it has {known}."
    )
  length, base_lr = recipes[data, model]
  config = on(data)
  config.total_epochs = float(epochs or length)
  config.model.update(names.find(model).model_dump(exclude_unset=True))
  if registry.FAMILIES.get(config.model.name).has_attention:
    config.model.representation_size = "width"
  else:  # A ResNet has no dropout, and its head is linear.
    config.model.dropout_rate = 0.0
  config.schedule.base_lr = base_lr
  paper_row.pretraining(config, data)
  return config


def on(data: str) -> ml_collections.ConfigDict:
  """Settings shared by all networks on a dataset, without rate and length.

  Adam with decoupled decay, 4096 images of 224 px a step, 10,000 steps of
  warmup. The paper does not name the loss; its authors' code has this one.
  Clipping is stated for ImageNet alone: on ImageNet-21k it is that of [BV], and
  on JFT-300M it is inferred.

  Args:
    data: A key of `DATA`.
  """
  of = DATA[data]
  config = default_config()
  config.log_every_steps = 100
  config.model.update(image_size=224, dtype="bfloat16", head_bias_init=-10.0)
  config.model.dropout_rate = of.dropout_rate
  config.train.update(
    dataset=of.dataset, batch_size=4096, label_key=of.label_key
  )
  config.train.preprocess = f"decode|inception_crop{of.label_ops}|flip_lr"
  config.objective.update(loss="sigmoid", label_smoothing=of.label_smoothing)
  config.optimizer.update(
    name="adamw", grad_clip_norm=1.0, weight_decay=of.weight_decay
  )
  config.schedule.update(warmup_steps=10_000, decay=of.decay, end_lr=1e-5)
  config.checkpoint.update(every_steps=1000)
  config.evals.val = default_eval(
    type="classification",
    split="validation",
    label_key=of.label_key,
    every_steps=5000,
  )
  config.evals.val.preprocess = "decode|resize_small(scale=1.1429)|central_crop"
  config.evals.fewshot = default_eval(type="fewshot", every_steps=10_000)
  config.evals.fewshot.datasets.pets = default_fewshot_dataset(
    dataset="oxford_iiit_pet"
  )
  return config


def measure_imagenet(config: ml_collections.ConfigDict) -> None:
  """Makes the few-shot evaluator use ImageNet, as the paper's studies do."""
  config.evals.fewshot.datasets = ml_collections.ConfigDict(
    {
      "imagenet": default_fewshot_dataset(
        dataset="imagenet2012",
        train_split="train[:65000]",  # [BV]
        test_split="validation",
      )
    }
  )


def shrink(
  config: ml_collections.ConfigDict, data: str
) -> ml_collections.ConfigDict:
  """`smoke.shrink` with as many labels an image as the data have."""
  return smoke.shrink(config, max_labels=min(3, DATA[data].max_labels))
