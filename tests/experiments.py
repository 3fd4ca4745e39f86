"""Tiny experiments that tests build and train."""

from typing import Any

import jax
import jax.numpy as jnp

from vit_jax.config import defaults, resolve, schema
from vit_jax.data import facts as facts_lib
from vit_jax.data.facts import DataFacts
from vit_jax.training import experiment
from vit_jax.training.experiment import Experiment

DATASET = "generated:classes=4,size=8,examples=64"
# Changes that make the model of two layers one with convolutions.
RESNET = {
  "model__name": "resnet",
  "model__variant": "R50x1",
  "model__width": 32,
  "model__blocks": (1, 1),
  **dict.fromkeys(("model__depth", "model__num_heads", "model__mlp_dim")),
}
# Changes that make it predict two numbers.
REGRESSION = {
  "train__dataset": "generated:targets=2,size=8,examples=64",
  "objective__loss": "mse",
  "evals__test__type": "regression",
}
HYBRID = {"model__stem_blocks": (1,), "model__stem_width": 32}


def config(**changes: Any) -> schema.Config:
  """A run of six steps of a model of two layers; '__' stands for '.'."""
  built = defaults.default_config()
  built.update(total_steps=6, log_every_steps=1)
  built.model.update(variant="Ti/4", width=32, depth=2, num_heads=4)
  built.model.update(mlp_dim=64, image_size=8)
  built.train.update(dataset=DATASET, batch_size=16)
  built.train.preprocess = "decode|inception_crop(area_min=50)|flip_lr"
  built.optimizer.update(weight_decay=0.1)
  built.schedule.update(base_lr=1e-2, warmup_steps=1)
  built.checkpoint.every_steps = 2
  built.evals.test = defaults.default_eval(type="classification", every_steps=3)
  for path, value in changes.items():
    *parents, leaf = path.split("__")
    section = built
    for name in parents:
      section = section[name]
    section[leaf] = value
  return resolve.resolve(built)


def facts(config: schema.Config) -> DataFacts:
  """Facts of the generated data, which are not opened."""
  labels = {"num_classes": 4}
  if config.objective.predicts_numbers:
    labels = {"num_classes": None, "max_labels": 0, "num_numbers": 2}
  return facts_lib.declare(
    config, num_examples=64, fingerprint="generated", **labels
  )


def build(**changes: Any) -> Experiment:
  made = config(**changes)
  return experiment.build(made, facts(made))


def batch(parts: Experiment, seed: int = 0) -> dict[str, jax.Array]:
  """A random global batch on the experiment's mesh."""
  image, label = jax.random.split(jax.random.key(seed))
  made = {
    "image": jax.random.randint(image, (16, 8, 8, 3), 0, 256, jnp.int32),
    "label": jax.random.randint(label, (16,), 0, 4, jnp.int32),
  }
  made["image"] = made["image"].astype(jnp.uint8)
  return {
    name: jax.device_put(made[name], spec.sharding)
    for name, spec in parts.abstract_batch().items()
  }
