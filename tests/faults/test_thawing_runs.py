"""Runs that stop about where frozen prototypes thaw lose nothing."""

import jax
import numpy as np
import pytest

from tests.objectives import test_meshes
from vit_jax import trees
from vit_jax.rundir.position import Position
from vit_jax.rundir.run_directory import RunDirectory
from vit_jax.rundir.timing import Clock

STEPS, THAW = 4, 2
FREEZE = {"optimizer__freeze_until": ((r".*_head/prototypes/.*", THAW),)}
# Moments of DINOv2's prototypes accumulate while they are frozen, DINO's not.
RUNS = {
  "dinov2, sinkhorn": {"optimizer__freeze_until_mode": "zero_rate"},
  "dino, mean": {"optimizer__grad_clip": "parameter"},
}


def trained(parts, state, first):
  """The states after each update from the first on, as arrays of NumPy."""
  found = {}
  for step in range(first, STEPS):
    rng = np.random.default_rng(step)
    batch = {
      name: jax.device_put(
        test_meshes.drawn(rng, spec.shape).astype(spec.dtype), spec.sharding
      )
      for name, spec in parts.abstract_batch().items()
    }
    state, metrics = parts.train_step(state, batch)
    found[step + 1] = jax.tree.map(np.asarray, (state, metrics))
  return found


@pytest.fixture(scope="module", params=RUNS)
def undisturbed(request):
  """An experiment, and its states and metrics by the number of updates."""
  changes = FREEZE | RUNS[request.param]
  parts = test_meshes.built(request.param, (1, 2, 1), **changes)
  return parts, trained(parts, parts.init_state(), 0)


@pytest.mark.parametrize(
  "stopped",
  [
    pytest.param(THAW - 1, marks=pytest.mark.slow),
    THAW,
    pytest.param(THAW + 1, marks=pytest.mark.slow),
  ],
)
def test_a_run_that_stopped_about_the_thaw_goes_on_to_the_bit(
  tmp_path, undisturbed, stopped
):
  parts, wanted = undisturbed
  state, _ = wanted[stopped]
  with RunDirectory(str(tmp_path), parts, Clock()) as directory:
    placed = jax.tree.map(
      lambda leaf, spec: jax.device_put(leaf, spec.sharding),
      state,
      parts.abstract_state,
    )
    directory.save(stopped, placed, Position())
    directory.finish("interrupted")
  with RunDirectory(str(tmp_path), parts, Clock()) as directory:
    assert directory.first_step == stopped
    found = trained(parts, directory.restore_or_init(), stopped)
    directory.finish("interrupted")
  for step, given in found.items():
    jax.tree.map(np.testing.assert_array_equal, given, wanted[step])


def test_prototypes_move_once_they_thaw(undisturbed):
  parts, states = undisturbed
  path = "dino_head/prototypes/kernel"

  def prototypes(step):
    state, _ = states[step]
    return dict(trees.named_leaves(state.params))[path]

  np.testing.assert_array_equal(prototypes(1), prototypes(THAW))
  assert np.abs(prototypes(THAW + 1) - prototypes(THAW)).max() > 1e-5
