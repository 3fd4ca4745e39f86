"""What the environment says of the processes of a run."""

import os
import subprocess
import sys

import jax
import pytest
from jax._src import xla_bridge

from vit_jax.errors import LostError, UserError
from vit_jax.processes import start


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
  """As if jax had not been used yet."""
  monkeypatch.setattr(jax.distributed, "is_initialized", lambda: False)
  monkeypatch.setattr(xla_bridge, "backends_are_initialized", lambda: False)


def place(monkeypatch, **environment):
  for name in ("COORDINATOR_ADDRESS", "NUM_PROCESSES", "PROCESS_ID"):
    monkeypatch.delenv(f"JAX_{name}", raising=False)
  for name, value in environment.items():
    monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
  ("environment", "sentence"),
  [
    ({}, "JAX_NUM_PROCESSES is not set"),
    ({"JAX_NUM_PROCESSES": "two"}, "JAX_NUM_PROCESSES = 'two'"),
    ({"JAX_NUM_PROCESSES": "2"}, "JAX_PROCESS_ID is not set"),
    (
      {"JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": "2"},
      "JAX_PROCESS_ID = 2 must be less than JAX_NUM_PROCESSES = 2",
    ),
    ({"VIT_JAX_START_SECONDS": "soon"}, "VIT_JAX_START_SECONDS = 'soon'"),
  ],
)
def test_an_environment_that_makes_no_sense_is_a_sentence(
  environment, sentence, monkeypatch
):
  place(monkeypatch, JAX_COORDINATOR_ADDRESS="localhost:1", **environment)
  with pytest.raises(UserError, match=sentence) as error:
    start.initialize()
  assert error.value.exit_code == 1


def test_the_wait_for_the_others_is_as_long_as_the_environment_says(
  monkeypatch,
):
  place(
    monkeypatch,
    JAX_COORDINATOR_ADDRESS="localhost:1",  # Where nobody listens.
    JAX_NUM_PROCESSES="2",
    JAX_PROCESS_ID="1",
    VIT_JAX_START_SECONDS="1",
  )
  with pytest.raises(LostError, match="within 1 s") as error:
    start.initialize()
  assert error.value.exit_code == 134


@pytest.mark.parametrize(
  ("variables", "devices"),
  [({}, "0"), ({"JAX_LOCAL_DEVICE_IDS": "0,1,2,3"}, "0,1,2,3")],
)
def test_a_task_of_slurm_has_the_gpus_that_it_was_given(variables, devices):
  """jax alone gives each task one; launch.slurm gives it all of its node."""
  inherited = {n: v for n, v in os.environ.items() if not n.startswith("SLURM")}
  task = {
    "SLURM_JOB_ID": str(os.getpid()),
    "SLURM_STEP_NODELIST": "localhost",
    "SLURM_NTASKS": "1",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
  }
  code = """
import jax
from vit_jax.processes import start
start.initialize()
print(jax.config.values["jax_cuda_visible_devices"])
"""
  run = subprocess.run(
    [sys.executable, "-c", code],
    env=inherited | task | variables,
    check=True,
    stdout=subprocess.PIPE,
    text=True,
  )
  assert run.stdout.split() == [devices]
