"""A run has the same losses on eight devices, split in any way, as on one."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

MESHES = {
  "1,1,1": "one device",
  "8,1,1": "data parallel",
  "1,8,1": "fsdp",
  "2,1,4": "tensor parallel",
  "2,2,2": "mixed",
}


# The others work by element.
OPTIMIZERS = ("lamb", "lars", "adafactor", "muon")


def measured(repo, *cases):
  """Case -> its losses."""
  run = subprocess.run(
    [sys.executable, "-m", "tests.sharding.eight_devices", *cases],
    cwd=repo,
    env={**os.environ, "JAX_NUM_CPU_DEVICES": "8"},
    check=True,
    stdout=subprocess.PIPE,
    text=True,
  )
  return json.loads(run.stdout)


@pytest.mark.slow
def test_twenty_losses_equal_one_devices_on_every_mesh_of_eight(repo):
  found = measured(repo, *MESHES)
  one = found.pop("1,1,1")
  assert one[-1] < 0.95 * one[0]  # It learns, so errors had time to grow.
  for mesh, its in found.items():
    np.testing.assert_allclose(its, one, rtol=1e-6, err_msg=MESHES[mesh])


@pytest.mark.slow
def test_optimizers_that_look_at_whole_layers_may_share_their_update(repo):
  cases = [
    f"{mesh},{name}" for name in OPTIMIZERS for mesh in ("1,1,1", "-1,auto,1")
  ]
  found = measured(repo, *cases)
  for name in OPTIMIZERS:
    one, shared = found[f"1,1,1,{name}"], found[f"-1,auto,1,{name}"]
    assert one[-1] < 0.95 * one[0], name
    np.testing.assert_allclose(shared, one, rtol=1e-6, err_msg=name)
