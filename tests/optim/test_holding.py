"""Parameters that begin to learn later have no history, or a rate of 0."""

import jax
import numpy as np
import pytest

from vit_jax.errors import UserError
from vit_jax.optim import build, schedules


def run(config, params, grads, steps, schedule=None, **settings):
  """Parameters after each of some updates with the same gradients."""
  tx, _ = build.build(
    config({"base_lr": 0.1} | (schedule or {}), **settings),
    params=params,
    total_steps=100,
    batch_size=8,
    num_examples=80,
  )
  state, found = tx.init(params), []
  for step in range(steps):
    state = schedules.at_step(state, step)
    updates, state = jax.jit(tx.update)(grads, state, params)
    params = jax.tree.map(np.add, params, updates)
    found.append(params)
  return found


@pytest.mark.parametrize(
  ("until", "steps"),
  [(110, 110), ("11 epochs", 110), (100, 100), ("100%", 100)],
)
def test_what_is_held_for_the_whole_run_is_warned_of(
  until, steps, config, params, grads, caplog
):
  run(config, params, grads, 1, freeze_until=(("head/.*", until),))
  (line,) = caplog.messages
  assert f"holds the parameters 'head/.*' for {steps} steps" in line
  caplog.clear()
  # The last of a hundred updates, of those counted from 0.
  run(config, params, grads, 1, freeze_until=(("head/.*", 99),))
  assert not caplog.messages


def test_a_held_parameter_has_neither_moments_nor_decay(config, params, grads):
  settings = dict(name="adamw", weight_decay=0.1)
  settings |= dict(schedule={"decay": "constant"})
  held = (("head/.*", 3),)
  # Compiled, the two are rounded in different ways.
  with jax.disable_jit():
    found = run(config, params, grads, 5, freeze_until=held, **settings)
    usual = run(config, params, grads, 5, **settings)
  for step in range(3):
    for name in ("kernel", "bias"):
      np.testing.assert_array_equal(
        found[step]["head"][name], params["head"][name]
      )
  # Its fourth update is the first of another run.
  for step in (0, 1):
    for name in ("kernel", "bias"):
      np.testing.assert_allclose(
        found[3 + step]["head"][name], usual[step]["head"][name], rtol=1e-6
      )
  for step in range(5):
    np.testing.assert_array_equal(found[step]["cls"], usual[step]["cls"])


@pytest.mark.parametrize("mode", ["hold", "zero_rate"])
def test_a_held_parameter_begins_at_the_rate_of_its_step(
  config, params, grads, mode
):
  settings = dict(name="sgd", momentum=0.0, weight_decay=0.0)
  found = run(
    config,
    params,
    grads,
    6,
    schedule={"warmup_steps": 5, "decay": "constant"},
    freeze_until=(("head/.*", 3),),
    freeze_until_mode=mode,
    **settings,
  )
  for step in (3, 4, 5):
    rate = 0.1 * min(step / 5, 1)
    for name in ("kernel", "bias"):
      np.testing.assert_allclose(
        found[step - 1]["head"][name] - found[step]["head"][name],
        rate * grads["head"][name],
        rtol=1e-4,
        atol=1e-6,
      )


def test_a_network_is_unfrozen_from_the_head_down(config, params, grads):
  in_turn = (("head/.*", 0), ("cls", "2%"), (".*", "4%"))  # Of 100 steps.
  found = [params, *run(config, params, grads, 6, freeze_until=in_turn)]
  begins = {"head": 0, "cls": 2}
  for name, leaves in params.items():
    for step in range(6):
      moves = any(
        np.any(before != after)
        for before, after in zip(
          jax.tree.leaves(found[step][name]),
          jax.tree.leaves(found[step + 1][name]),
          strict=True,
        )
      )
      assert moves == (step >= begins.get(name, 4)), (name, step, leaves)


def test_moments_accumulate_at_a_rate_of_zero(config, params, grads):
  held = (("head/.*", 3),)
  found = run(
    config,
    params,
    grads,
    5,
    freeze_until=held,
    freeze_until_mode="zero_rate",
    name="sgd",
    momentum=0.9,
    weight_decay=0.0,
  )
  usual = run(
    config, params, grads, 5, name="sgd", momentum=0.9, weight_decay=0.0
  )
  for name in ("kernel", "bias"):
    start = params["head"][name]
    np.testing.assert_array_equal(found[2]["head"][name], start)
    first, third, fourth = (usual[i]["head"][name] for i in (0, 2, 3))
    moved = found[3]["head"][name] - start
    np.testing.assert_allclose(moved, fourth - third, rtol=1e-4, atol=1e-6)
    # The sum of four gradients, each of which fades by 0.9 a step.
    assert np.abs(moved).sum() > 3 * np.abs(first - start).sum()
  np.testing.assert_array_equal(found[4]["cls"], usual[4]["cls"])


@pytest.mark.parametrize("mode", ["hold", "zero_rate"])
def test_what_is_held_for_ever_never_moves(mode, config, params, grads):
  held = {"freeze_until": (("head/.*", "10G steps"),)}
  found = run(config, params, grads, 2, freeze_until_mode=mode, **held)
  for name, leaf in params["head"].items():
    np.testing.assert_array_equal(found[-1]["head"][name], leaf)


def test_the_time_may_be_in_epochs(config, params, grads):
  # An epoch is ten steps.
  held = (("head/bias", "1 epochs"),)
  found = run(config, params, grads, 11, freeze_until=held, name="sgd")
  bias = params["head"]["bias"]
  np.testing.assert_array_equal(found[9]["head"]["bias"], bias)
  assert np.all(found[10]["head"]["bias"] != bias)
  assert np.all(found[0]["head"]["kernel"] != params["head"]["kernel"])


@pytest.mark.parametrize(
  ("held", "words"),
  [
    ((("haed/.*", 3),), "freeze_until: 'haed/.*' matches no parameter"),
    ((("head(", 3),), "freeze_until: 'head\\(' is not a regular expression"),
  ],
)
def test_a_wrong_regex_is_told(config, params, grads, held, words):
  with pytest.raises(UserError, match=words):
    run(config, params, grads, 1, freeze_until=held)
