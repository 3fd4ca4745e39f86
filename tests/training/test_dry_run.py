"""What --dry_run shows."""

import re

import pytest

from tests import experiments
from vit_jax.errors import UserError
from vit_jax.training import dry_run, memory


def test_it_shows_config_parameters_sharding_batch_and_memory():
  text = dry_run.describe(experiments.config(mesh__tensor=2))
  for title in ("Config", "Parameters", "Sharding", "Batch", "memory", "Run"):
    assert f"== {title}" in text or title in text
  assert '"variant": "Ti/4"' in text
  assert text.startswith("== Run ==\nmodel ")
  kernel = "Transformer/encoderblock_*/MlpBlock_0/Dense_0/kernel"
  assert re.search(rf"{re.escape(kernel)} +\| \(2, 32, 64\)", text)
  assert "(32, 64) -> (-, tensor)" in text
  assert "image: uint8 (16, 8, 8, 3), 8 examples on each device" in text
  assert "6 steps" in text


def test_more_examples_a_device_keep_more_activations():
  def activations(**changes):
    return memory.activation_bytes(experiments.build(**changes))

  whole = activations()
  assert activations(train__accumulate_steps=2) < whole
  assert activations(model__remat="full") < whole


def test_data_that_are_not_here_are_noted():
  config = experiments.config(train__dataset="not_there", model__num_classes=5)
  text = dry_run.describe(config)
  assert "The data are not here" in text
  assert "head/bias" in text


def test_data_that_an_evaluator_lacks_are_an_error():
  config = experiments.config(evals__test__split="dev")
  with pytest.raises(UserError, match=r"config.evals.test: Split 'dev'"):
    dry_run.describe(config)
