"""What the environment says of the processes of a run."""

import os
import socket
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


def task_of_slurm(count=1, index=0, nodes=1):
  """The variables that srun gives a task; the first node has this name."""
  return {
    "SLURM_JOB_ID": str(os.getpid()),
    "SLURM_STEP_NODELIST": "localhost",
    "SLURM_STEP_NUM_NODES": str(nodes),
    "SLURM_NTASKS": str(count),
    "SLURM_PROCID": str(index),
    "SLURM_LOCALID": str(index % (count // nodes)),
  }


def gpus_after_joining(*environments):
  """The GPUs that jax lets each of these processes see, once all have met."""
  code = """
import jax
from vit_jax.processes import start
start.initialize()
print(jax.config.values["jax_cuda_visible_devices"])
"""
  inherited = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith("SLURM")
  }
  processes = [
    subprocess.Popen(
      [sys.executable, "-c", code],
      env=inherited | variables,
      stdout=subprocess.PIPE,
      text=True,
    )
    for variables in environments
  ]
  answers = [process.communicate()[0].strip() for process in processes]
  assert [process.returncode for process in processes] == [0] * len(processes)
  return answers


def test_a_process_without_a_cluster_is_alone_and_has_all_gpus():
  assert gpus_after_joining({}) == ["all"]


def test_a_lone_task_of_slurm_has_all_gpus_that_it_was_given():
  """As of srun --gpus=8 or an interactive step; jax alone takes one of them."""
  assert gpus_after_joining(task_of_slurm()) == ["all"]


def test_a_task_that_is_alone_on_its_node_has_all_gpus_of_it():
  """As of srun --nodes=2 --ntasks-per-node=1 --gpus-per-node=8."""
  tasks = [task_of_slurm(count=2, index=index, nodes=2) for index in range(2)]
  assert gpus_after_joining(*tasks) == ["all", "all"]


@pytest.mark.parametrize("nodes", [1, 2])
def test_several_tasks_of_a_node_have_a_gpu_each(nodes):
  count = 2 * nodes
  tasks = [task_of_slurm(count, index, nodes) for index in range(count)]
  assert gpus_after_joining(*tasks) == ["0", "1"] * nodes


@pytest.mark.parametrize(
  ("count", "gpus"), [(1, ["all", "all"]), (2, ["0", "1"])]
)
def test_a_run_that_is_joined_by_hand_has_the_gpus_of_its_tasks(count, gpus):
  """All are those of a lone task, in which both processes are started."""
  with socket.socket() as probe:
    probe.bind(("localhost", 0))
    port = probe.getsockname()[1]
  by_hand = [
    {
      **task_of_slurm(count, index % count),
      "JAX_COORDINATOR_ADDRESS": f"localhost:{port}",
      "JAX_NUM_PROCESSES": "2",
      "JAX_PROCESS_ID": str(index),
    }
    for index in range(2)
  ]
  assert gpus_after_joining(*by_hand) == gpus


def test_a_script_of_sbatch_is_no_task_of_its_tasks():
  """It has the number of tasks, but no step; jax alone sees no SLURM either."""
  with socket.socket() as probe:
    probe.bind(("localhost", 0))
    port = probe.getsockname()[1]
  script = task_of_slurm(count=8)
  del script["SLURM_STEP_NODELIST"], script["SLURM_STEP_NUM_NODES"]
  by_hand = {
    "JAX_COORDINATOR_ADDRESS": f"localhost:{port}",
    "JAX_NUM_PROCESSES": "1",
    "JAX_PROCESS_ID": "0",
  }
  assert gpus_after_joining(script | by_hand) == ["all"]


def test_the_devices_that_are_asked_for_come_before_those_of_slurm():
  """launch.slurm asks for all devices of a node."""
  asked = {"JAX_LOCAL_DEVICE_IDS": "0,1,2,3"}
  assert gpus_after_joining(task_of_slurm() | asked) == ["0,1,2,3"]
  tasks = [task_of_slurm(count=2, index=index) | asked for index in range(2)]
  assert gpus_after_joining(*tasks) == ["0,1,2,3"] * 2
