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


@pytest.mark.slow
def test_twenty_losses_equal_one_devices_on_every_mesh_of_eight(repo):
  run = subprocess.run(
    [sys.executable, "-m", "tests.sharding.eight_devices", *MESHES],
    cwd=repo,
    env={**os.environ, "JAX_NUM_CPU_DEVICES": "8"},
    check=True,
    stdout=subprocess.PIPE,
    text=True,
  )
  found = json.loads(run.stdout)
  one = found.pop("1,1,1")
  assert one[-1] < 0.95 * one[0]  # It learns, so errors had time to grow.
  for mesh, losses in found.items():
    np.testing.assert_allclose(losses, one, rtol=1e-6, err_msg=MESHES[mesh])
