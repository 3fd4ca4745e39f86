"""`--check=compile`: nothing is submitted that does not fit."""

import subprocess
import sys

import pytest

from launch import compile_check
from tests.launch.programs import Programs
from vit_jax.aot import topology as topology_lib
from vit_jax.errors import UserError

SLURM = (
  *("launch.slurm", "--nodes=2", "--gpus_per_node=4"),
  *("--cpus_per_node=8", "--time=1:00:00"),
)
GKE = ("launch.gke", "--tpu=v5e:2x2", "--nobuild", "--image=place/image:1")


@pytest.fixture
def submit(repo, tmp_path):
  """Runs a launcher whose programs stand in; returns it and their calls."""

  def run(*words, workdir="runs/first", overrides=()):
    programs = Programs(tmp_path / "programs", "sbatch", "kubectl")
    environment = {**programs.environment, "PYTHONPATH": str(repo)}
    environment.pop("XLA_FLAGS", None)  # The TPU's compiler knows others.
    done = subprocess.run(
      [
        *(sys.executable, "-m", *words, "--name=first", "--check=compile"),
        f"--config={repo}/configs/quickstart.py:smoke",
        *overrides,
        f"--workdir={workdir}",
      ],
      capture_output=True,
      text=True,
      cwd=tmp_path,
      env=environment,
    )
    return done, programs.calls()

  return run


@pytest.mark.parametrize(
  ("name", "expected"),
  [
    ("nvidia-h100-80gb", "NVIDIA H100 80GB HBM3"),
    ("nvidia-h100-mega-80gb", "NVIDIA H100 80GB HBM3"),
    ("nvidia-h200-141gb", "NVIDIA H200"),
    ("nvidia-b200", "NVIDIA B200"),
    ("nvidia-a100-80gb", "NVIDIA A100-SXM4-80GB"),
    ("nvidia-l4", "NVIDIA L4"),
    ("rtx4090", "NVIDIA GeForce RTX 4090"),
  ],
)
def test_gpus_are_named_as_gke_or_compile_names_them(name, expected):
  found = topology_lib.parse(compile_check.gpus(name, 3, 8))
  assert (found.num_hosts, found.gpus_per_host) == (3, 8)
  assert found.device_kind == expected


@pytest.mark.parametrize(
  ("words", "sentence"),
  [
    (SLURM, "--check=compile and --gpu=KIND, such as --gpu=h100, go together"),
    ((*SLURM, "--gpu=v100"), '"v100" in --topology=v100:2x4 is not a known'),
  ],
)
def test_what_cannot_be_compiled_is_not_submitted(submit, words, sentence):
  done, calls = submit(*words)
  assert done.returncode == 1 and not calls
  assert sentence in done.stderr and "Traceback" not in done.stderr


# It writes what it was told where --output says, as `vit_jax.compile` does.
COMPILER = """#!/bin/sh
echo "$*" > {place}/words
for word in "$@"; do case $word in --output=*) output=${{word#--output=}};; esac
done
{act}
"""


@pytest.mark.parametrize(
  ("act", "sentence"),
  [
    ("echo '{\"fits\": true}' > $output", None),
    ("echo '{\"fits\": false}' > $output", "does not fit into the memory"),
    ("exit 1", "the step was not compiled"),
    ("kill -9 $$", "the step was not compiled"),
  ],
)
def test_what_the_compiler_says_decides(
  act, sentence, taken, tmp_path, monkeypatch
):
  compiler = tmp_path / "python"
  compiler.write_text(COMPILER.format(place=tmp_path, act=act))
  compiler.chmod(0o755)
  monkeypatch.setattr(sys, "executable", str(compiler))
  if sentence:
    with pytest.raises(UserError, match=f"nothing was submitted.*{sentence}"):
      compile_check.check(taken, "h100:2x4")
  else:
    compile_check.check(taken, "h100:2x4")
  words = (tmp_path / "words").read_text()
  assert "-m vit_jax.compile" in words and "--topology=h100:2x4" in words
  assert "quickstart.py:smoke --config.seed=3" in words


@pytest.mark.slow
def test_a_step_that_fits_is_submitted(submit):
  pytest.importorskip("libtpu")
  done, calls = submit(*GKE, workdir="gs://bucket/first")
  assert done.returncode == 0, done.stderr
  assert "It fits into" in done.stdout and "run of " in done.stdout
  assert [call["name"] for call in calls] == ["kubectl"]


@pytest.mark.slow
def test_a_step_that_does_not_fit_is_not_submitted(submit):
  pytest.importorskip("libtpu")
  done, calls = submit(
    *GKE,
    overrides=["--config.train.batch_size=40000000"],
    workdir="gs://bucket/first",
  )
  assert done.returncode == 1 and not calls
  assert "It does not fit" in done.stdout
  assert "nothing was submitted" in done.stderr
