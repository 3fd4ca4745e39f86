"""The parts of a run, built from shapes."""

import dataclasses

import jax
import pytest

from tests import experiments
from vit_jax import trees
from vit_jax.errors import UserError
from vit_jax.training import experiment


def test_epochs_are_counted_in_steps():
  parts = experiments.build(total_steps=None, total_epochs=2.5)
  assert parts.total_steps == 10  # 2.5 x 64 / 16.
  assert parts.steps("2 epochs") == 8
  assert parts.steps(None) is None


def test_steps_win_over_epochs():
  parts = experiments.build(total_steps=3, total_epochs=100)
  assert parts.total_steps == 3


def test_less_than_a_batch_is_refused():
  with pytest.raises(UserError, match="less than one batch"):
    experiments.build(total_steps=None, total_epochs=0.01)


def test_epochs_need_the_datas_size():
  facts = dataclasses.replace(experiments.FACTS, num_examples=None)
  config = experiments.config(total_steps=None, total_epochs=1)
  with pytest.raises(UserError, match="set config.total_steps"):
    experiment.build(config, facts)


def test_the_abstract_state_is_that_of_the_state():
  parts = experiments.build(ema_decay=0.99)
  state = parts.init_state()
  for (name, leaf), (_, abstract) in zip(
    trees.named_leaves(state),
    trees.named_leaves(parts.abstract_state),
    strict=True,
  ):
    assert (leaf.shape, leaf.dtype) == (abstract.shape, abstract.dtype), name
    assert leaf.sharding.is_equivalent_to(abstract.sharding, leaf.ndim), name


def test_model_flops_are_three_forward_passes():
  parts = experiments.build()
  tokens, width, mlp = 5, 32, 64
  layer = (
    4 * tokens * width**2 + 2 * tokens**2 * width + 2 * tokens * width * mlp
  )
  forward = 2 * (4 * 4 * 4 * 3 * width + 2 * layer + width * 4)
  assert parts.flops_per_step == 3 * forward * 16


def test_a_model_with_fewer_classes_than_the_data_is_refused():
  config = experiments.config(model__num_classes=3)
  with pytest.raises(UserError, match="less than the 4 classes"):
    experiment.facts(config, experiment.open_data(config))


def test_a_model_may_have_more_classes_than_the_data():
  config = experiments.config(model__num_classes=7)
  assert experiment.facts(config, experiment.open_data(config)).num_classes == 7


def test_without_the_data_the_config_must_say_classes_and_steps():
  changes = {"train__dataset": "not_there"}
  config = experiments.config(model__num_classes=7, **changes)
  facts, missing = experiment.facts_of_config(config)
  assert facts.num_classes == 7
  assert "not_there" in str(missing)
  with pytest.raises(UserError, match="not_there"):
    experiment.facts_of_config(experiments.config(**changes))


def test_running_out_of_memory_says_what_to_lower():
  parts = experiments.build()
  out_of_memory = jax.errors.JaxRuntimeError(
    "RESOURCE_EXHAUSTED: Out of memory allocating 17179869184 bytes."
  )

  def fail(*args):
    raise out_of_memory

  fail.lower = fail
  with pytest.raises(UserError, match="config.train.accumulate_steps") as error:
    dataclasses.replace(parts, train_step=fail).compile()
  assert "17179869184 bytes" in str(error.value)
  assert "config.train.batch_size" in str(error.value)
