"""The programs of docs/own_loop.md do what the page says."""

import os
import pathlib
import re
import subprocess
import sys

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest

import vit_jax
from tests import experiments
from vit_jax.checkpoint.store import CheckpointStore

REPO = pathlib.Path(__file__).parents[1]
PAGE = (REPO / "docs" / "own_loop.md").read_text(encoding="utf-8")
LOOP, READING = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
# As where this package is not installed.
ALONE = 'import sys; sys.modules["vit_jax"] = None\n'
SAVING = """
leaves = jax.tree_util.tree_leaves_with_path(state)
np.savez("read", **{jax.tree_util.keystr(path): leaf for path, leaf in leaves})
"""
KEYS = [
  "ema_params",
  "objective_state",
  "opt_state",
  "params",
  "spikes",
  "step",
]


def run(code, place, **variables):
  return subprocess.run(
    [sys.executable, "-c", code],
    cwd=place,
    env={**os.environ, "PYTHONPATH": str(REPO), **variables},
    check=True,
    capture_output=True,
    text=True,
  ).stdout


@pytest.mark.slow
def test_a_model_learns_in_a_loop_of_ones_own(tmp_path):
  said = run(LOOP, tmp_path, XLA_FLAGS="")  # It computes more than compiles.
  accuracy = float(said.split()[-1])
  assert accuracy > 0.85
  model, params = vit_jax.load(tmp_path / "digits.npz")
  images = np.zeros((1, 32, 32, 3), np.uint8)
  assert model.apply({"params": params}, images).shape == (1, 10)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
  """A train state, and the directory of its checkpoint."""
  workdir = tmp_path_factory.mktemp("run")
  state = experiments.build(ema_decay=0.9).init_state()
  store = CheckpointStore(workdir)
  store.save(4, state, {})
  store.close()
  return state, workdir / "checkpoints" / "4" / "state"


def by_path(tree):
  leaves = jax.tree_util.tree_leaves_with_path(tree)
  return {jax.tree_util.keystr(path): leaf for path, leaf in leaves}


def test_a_checkpoint_is_read_by_orbax_alone_on_other_devices(saved, tmp_path):
  state, path = saved
  place = "/home/me/runs/quickstart/checkpoints/1200/state"
  assert place in READING
  code = ALONE + READING.replace(place, str(path)) + SAVING
  said = run(code, tmp_path, PYTHONPATH="", JAX_NUM_CPU_DEVICES="1")
  assert said.splitlines()[0] == str(KEYS)
  with np.load(tmp_path / "read.npz") as read:
    assert_holds(dict(read), state)


def test_on_as_many_devices_a_checkpoint_is_read_in_one_call(saved):
  assert "ocp.StandardCheckpointer().restore(path)" in PAGE
  state, path = saved
  read = ocp.StandardCheckpointer().restore(path)
  assert sorted(read) == KEYS
  assert_holds(by_path(read), state)


def assert_holds(read, state):
  for name in ("params", "ema_params"):
    expected = by_path({name: getattr(state, name)})
    assert expected.keys() == {k for k in read if k.startswith(f"['{name}']")}
    for leaf, value in expected.items():
      np.testing.assert_array_equal(read[leaf], value)
  moments = [name for name in read if name.startswith("['opt_state']")]
  assert len(moments) == len(jax.tree.leaves(state.opt_state))
  assert read["['step']"] == 0


def test_the_keys_of_a_checkpoint_are_those_of_the_page():
  keys = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
  assert sorted(keys) == KEYS
