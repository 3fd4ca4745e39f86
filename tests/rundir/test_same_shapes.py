"""Which arrays keep a saved state from being that of a run."""

import numpy as np

from vit_jax.rundir import same_shapes

SAVED = {"params/head/bias": (3,), "opt_state/0/mu/head/bias": (3,), "step": ()}


def state(classes, **more):
  head = {"head": {"bias": np.zeros(classes)}}
  mu = [{"mu": head}]
  return {"params": head | more, "opt_state": mu, "step": np.zeros(())}


def test_the_same_arrays_are_no_misfits():
  assert same_shapes.misfits(SAVED, state(3)) == ""


def test_parameters_are_named_with_both_shapes_and_no_optimizer_state():
  assert same_shapes.misfits(SAVED, state(4, cls=np.zeros(2))) == (
    "its parameters would change (head/bias was (3,), is (4,); cls was not"
    " there, is (2,))"
  )


def test_other_state_is_named_where_the_parameters_are_the_same():
  saved = SAVED | {"opt_state/0/nu/head/bias": (3,)}
  assert same_shapes.misfits(saved, state(3)) == (
    "its training state would change (opt_state/0/nu/head/bias was (3,), is not"
    " there)"
  )


def test_only_the_first_few_are_named():
  layers = {f"layer_{i}": np.zeros(2) for i in range(6)}
  text = same_shapes.misfits(SAVED, state(3, **layers))
  assert "layer_3 was not there, is (2,); and 2 more" in text
  assert "layer_4" not in text
