"""Keys whose values have no effect because of other keys."""

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vit_jax.config import resolve, schema, without_effect
from vit_jax.config.defaults import default_config
from vit_jax.optim import schedules, transforms

OTHER = {
  "momentum": 0.5,
  "nesterov": True,
  "b1": 0.5,
  "b2": 0.3,
  "eps": 1e-2,
  "clipping_threshold": 0.01,
}


def found(**keys):
  """Keys that have no effect in a config with these, all others at default."""
  config = default_config()
  config.total_steps = 100
  config.update_from_flattened_dict(
    {name.replace("__", "."): value for name, value in keys.items()}
  )
  return dict(without_effect.find(resolve.resolve(config)))


def updates(optimizer):
  """Three updates of a matrix of an encoder block and of a vector."""
  params = {
    "Transformer": {
      "encoderblock_0": {
        "MlpBlock_0": {"Dense_0": {"kernel": jnp.ones((32, 32))}},
      },
    },
    "head": {"bias": jnp.ones(3)},
  }
  factors = {
    "Transformer/encoderblock_0/MlpBlock_0/Dense_0/kernel": 0.0,
    "head/bias": 0.0,
  }
  tx = transforms.OPTIMIZERS[optimizer.name](
    optimizer, lambda step: 0.1, transforms.Decay(0.0, factors)
  )

  rng = np.random.default_rng(0)
  state, made = tx.init(params), []
  for _ in range(3):
    gradients = jax.tree.map(
      lambda x: jnp.asarray(rng.normal(size=x.shape), jnp.float32), params
    )
    one, state = tx.update(gradients, state, params)
    made += map(np.asarray, jax.tree.leaves(one))
  return made


@pytest.mark.parametrize("name", transforms.OPTIMIZERS)
def test_of_an_optimizer_those_keys_are_found_that_change_no_update(name):
  before = updates(schema.Optimizer(name=name))
  for key, value in OTHER.items():
    after = updates(schema.Optimizer(name=name, **{key: value}))
    is_same = all(map(np.array_equal, before, after))
    keys = found(**{"optimizer__name": name, f"optimizer__{key}": value})
    assert (f"optimizer.{key}" in keys) == is_same, key


@pytest.mark.parametrize("decay", ["constant", "linear", "cosine", "rsqrt"])
def test_of_a_schedule_those_keys_are_found_that_change_no_rate(decay):
  def rates(**keys):
    rate = schedules.learning_rate(
      schema.Schedule(decay=decay, **keys),
      total_steps=100,
      batch_size=8,
      num_examples=None,
    )
    return jax.vmap(rate)(np.arange(100)).tolist()

  for key, value in (
    ("end_lr", 9.99e-4),
    ("rsqrt_timescale", 20),
    ("boundaries", (50,)),
    ("factor", 0.5),
  ):
    keys = found(**{"schedule__decay": decay, f"schedule__{key}": value})
    is_same = rates() == rates(**{key: value})
    assert (f"schedule.{key}" in keys) == is_same, key


@pytest.mark.parametrize(
  ("key", "value", "reason", "remedy"),
  [
    ("ema_warmup", False, "without config.ema_decay", {"ema_decay": 0.9}),
    ("init_without", ("a",), "without config.init_from", {"init_from": "x"}),
    (
      "objective.mix_mode",
      "elem",
      "without config.objective.mixup_alpha or config.objective.cutmix_alpha",
      {"objective__mixup_alpha": 0.2},
    ),
    (
      "objective.mix_switch",
      0.1,
      "unless config.objective.mixup_alpha and config.objective.cutmix_alpha"
      " are both set",
      {"objective__mixup_alpha": 0.2, "objective__cutmix_alpha": 1.0},
    ),
    (
      "objective.distillation_weight",
      0.9,
      "without config.objective.teacher",
      {"objective__teacher": "x"},
    ),
    (
      "objective.distillation_temperature",
      3.0,
      "without config.objective.teacher",
      {"objective__teacher": "x", "objective__distillation": "soft"},
    ),
    (
      "optimizer.grad_clip",
      "parameter",
      "without config.optimizer.grad_clip_norm",
      {"optimizer__grad_clip_norm": 1.0},
    ),
    (
      "optimizer.freeze_until_mode",
      "zero_rate",
      "without config.optimizer.freeze_until",
      {"optimizer__freeze_until": (("cls", "1 epochs"),)},
    ),
    ("log.project", "x", "without config.log.to", {"log__to": "wandb"}),
    (
      "profile.first_step",
      101,
      "in a run of config.total_steps = 100",
      {"total_steps": 101},
    ),
    (
      "faults.roll_back_checkpoints",
      2,
      "with config.faults.not_finite = 'stop'",
      {"faults__not_finite": "roll_back"},
    ),
    (
      "faults.max_not_finite",
      2,
      "with config.faults.not_finite = 'stop'",
      {"faults__not_finite": "skip"},
    ),
    (
      "faults.on_spike",
      "skip",
      "without config.faults.spike_zscore",
      {"faults__spike_zscore": 8.0},
    ),
  ],
)
def test_a_key_changed_in_vain_is_found_until_the_other_is_set(
  key, value, reason, remedy
):
  given = {key.replace(".", "__"): value}
  if key == "optimizer.grad_clip":
    given["optimizer__grad_clip_norm"] = None
  if key == "faults.on_spike":
    given["faults__spike_zscore"] = None
  sentence = found(**given)[key]
  assert sentence.startswith(f"config.{key} = {value!r} has no effect {reason}")
  assert key not in found(**{**given, **remedy})


def test_keys_of_dinov2_depend_on_its_choices():
  given = {"objective__center_momentum": 0.5, "objective__mask_ratio": (0, 0.3)}
  given |= {"objective__name": "dinov2", "objective__patch_bottleneck": 64}
  vain = {
    "objective__mask_probability": 0.0,
    "objective__separate_patch_head": False,
  }
  keys = {"center_momentum", "mask_ratio", "patch_bottleneck"}
  assert {k.removeprefix("objective.") for k in found(**given, **vain)} == keys
  assert not found(**given, objective__centering="mean")


def test_keys_of_an_evaluation_of_each_architecture_are_not_mentioned():
  assert not found(model_from_init=True, keep_model_keys=("image_size",))


def test_keys_of_an_extension_have_a_meaning_of_their_own():
  class Section(schema.DINO):
    name: Literal["mine"] = "mine"
    mix_mode: str = "all"

  objective = Section(mix_mode="one", centering="sinkhorn", center_momentum=0.5)
  config = default_config()
  config.total_steps = 100
  config = resolve.resolve(config).model_copy(update={"objective": objective})
  assert not dict(without_effect.find(config))


def test_defaults_are_not_mentioned():
  assert not found()
  assert not found(objective__name="mae", objective__mask_ratio=0.6)
