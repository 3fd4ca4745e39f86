"""Compiles the train step for the devices of a job before it is submitted.

`--check=compile` reports here, rather than after hours in a queue, whether the
step fits and the least time that it will take.
"""

import pathlib
import subprocess
import sys
import tempfile

from absl import flags

from launch import experiment
from vit_jax import records
from vit_jax.errors import UserError

_COMPILE = "compile"
# The labels of https://cloud.google.com/kubernetes-engine/docs/how-to/gpus of
# what `vit_jax.compile` has by name.
_GKE_GPUS = {
  "nvidia-a100-80gb": "a100",
  "nvidia-b200": "b200",
  "nvidia-h100-80gb": "h100",
  "nvidia-h100-mega-80gb": "h100",
  "nvidia-h200-141gb": "h200",
  "nvidia-l4": "l4",
}


def define_flags() -> None:
  flags.DEFINE_enum(
    "check",
    None,
    [_COMPILE],
    "compile: compile the step here first, report how long it takes, and submit"
    " only a step that fits.",
  )
  experiment.show_in_help("check")


def is_wanted() -> bool:
  """Returns True if --check=compile was given."""
  return flags.FLAGS.check == _COMPILE


def gpus(name: str, nodes: int, gpus_per_node: int) -> str:
  """The topology of nodes with GPUs, as `vit_jax.compile` names it.

  Args:
    name: Kind of GPU, as `vit_jax.compile` or GKE names it.
    nodes, gpus_per_node: How many there are.
  """
  return f"{_GKE_GPUS.get(name, name)}:{nodes}x{gpus_per_node}"


def check(taken: experiment.Experiment, topology: str) -> None:
  """Compiles an experiment's step and prints its figures.

  It runs in a separate process, because the compilers' settings must come
  before jax.

  Args:
    taken: Experiment to train.
    topology: Devices, as `vit_jax.compile` names them.

  Raises:
    UserError: The step does not fit, or cannot be compiled here.
  """
  with tempfile.TemporaryDirectory() as directory:
    output = pathlib.Path(directory) / "compiled.json"
    command = [
      *(sys.executable, "-m", "vit_jax.compile"),
      f"--config={experiment.shared_config(taken)}{taken.arguments}",
      *taken.overrides,
      f"--topology={topology}",
      f"--output={output}",
    ]
    print(f"Compiling for {topology}; this may take minutes.", flush=True)
    if subprocess.run(command).returncode:
      raise UserError(
        "--check=compile: nothing was submitted, as the step was not compiled;"
        " the reason is above. Fix it, or leave out --check."
      )
    found = records.read_json(output)
  print(flush=True)
  if not found["fits"]:
    raise UserError(
      "--check=compile: nothing was submitted, as the step does not fit into"
      f" the memory of {topology}; what would help is above."
    )
