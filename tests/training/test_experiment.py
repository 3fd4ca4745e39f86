"""The parts of a run, built from shapes."""

import dataclasses

import jax
import numpy as np
import pytest

from tests import experiments
from vit_jax import trees
from vit_jax.errors import UserError
from vit_jax.sharding import rules
from vit_jax.training import experiment


def test_epochs_are_counted_in_steps():
  parts = experiments.build(total_steps=None, total_epochs=2.5)
  assert parts.total_steps == 10  # 2.5 x 64 / 16.
  assert parts.steps("2 epochs") == 8
  assert parts.steps(None) is None


@pytest.mark.parametrize("first_step", [None, 10, 11])
def test_a_trace_after_the_end_of_so_many_epochs_is_told(caplog, first_step):
  experiments.build(
    total_steps=None, total_epochs=2.5, profile__first_step=first_step
  )
  told = "first_step = 11 is after the last step of the run, 10"
  assert (told in caplog.text) == (first_step == 11)


@pytest.mark.parametrize("interval", ["1 examples", "0.01 epochs", "0.2 steps"])
def test_an_interval_shorter_than_a_step_is_a_step(interval):
  assert experiments.build().steps(interval) == 1


def test_steps_win_over_epochs():
  parts = experiments.build(total_steps=3, total_epochs=100)
  assert parts.total_steps == 3


@pytest.mark.parametrize(
  ("most", "steps"), [(2.5, 10), (0.6, 2), (100, 30), (1e308, 30)]
)
def test_a_run_is_no_longer_than_the_epochs_allowed(most, steps):
  parts = experiments.build(total_steps=30, max_epochs=most)
  assert parts.total_steps == steps


def test_a_share_of_the_run_follows_its_length():
  parts = experiments.build(
    total_steps=30, max_epochs=5, schedule__warmup_steps="50%"
  )
  assert parts.steps("25%") == 5  # Of 5 x 64 / 16.
  assert float(parts.scalars["learning_rate"](10)) == pytest.approx(1e-2)
  assert float(parts.scalars["learning_rate"](5)) == pytest.approx(5e-3)


def test_less_than_a_batch_is_refused():
  with pytest.raises(UserError, match="less than one batch"):
    experiments.build(total_steps=None, total_epochs=0.01)


def test_epochs_need_the_datas_size():
  config = experiments.config(total_steps=None, total_epochs=1)
  facts = dataclasses.replace(experiments.facts(config), num_examples=None)
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


@pytest.mark.parametrize(("fsdp", "whole"), [("auto", True), (4, False)])
def test_evaluators_see_whole_parameters_where_the_update_alone_is_shared(
  monkeypatch, fsdp, whole
):
  monkeypatch.setattr(rules, "FSDP_MIN_BYTES", 0)
  parts = experiments.build(mesh__fsdp=fsdp)
  assert parts.mesh.shape["fsdp"] == 4
  state = parts.init_state()
  kernel = state.params["head"]["kernel"]
  (seen,) = [
    leaf
    for path, leaf in trees.named_leaves(parts.evaluated(state))
    if path == "head/kernel"
  ]
  assert not kernel.sharding.is_fully_replicated
  assert seen.sharding.is_fully_replicated == whole
  np.testing.assert_array_equal(seen, kernel)


def test_model_flops_are_three_forward_passes():
  parts = experiments.build()
  tokens, width, mlp = 5, 32, 64
  layer = (
    4 * tokens * width**2 + 2 * tokens**2 * width + 2 * tokens * width * mlp
  )
  # The last layer makes keys and values of all tokens, else the class token.
  last = (2 * tokens + 2) * width**2 + 2 * tokens * width + 2 * width * mlp
  forward = 2 * (4 * 4 * 4 * 3 * width + layer + last + width * 4)
  assert parts.flops_per_step == 3 * forward * 16


@pytest.mark.parametrize(
  "start", ["RESOURCE_EXHAUSTED", "INTERNAL: Error dispatching computation"]
)
def test_running_out_of_memory_says_what_to_lower(start):
  parts = experiments.build()
  out_of_memory = jax.errors.JaxRuntimeError(
    f"{start}: Out of memory allocating 17179869184 bytes."
  )

  def fail(*args):
    raise out_of_memory

  fail.lower = fail
  with pytest.raises(UserError, match="config.train.accumulate_steps") as error:
    dataclasses.replace(parts, jitted_step=fail).compile()
  assert "17179869184 bytes" in str(error.value)
  assert "config.train.batch_size" in str(error.value)
