"""`python -m vit_jax.compile` as a user runs it."""

import json
import os
import subprocess
import sys

import pytest

CONFIG = "--config=configs/quickstart.py:smoke"


def run(repo, *arguments: str, **variables: str) -> subprocess.CompletedProcess:
  environment = {**os.environ, **variables}
  environment.pop("XLA_FLAGS", None)  # The TPU's compiler knows others.
  return subprocess.run(
    [sys.executable, "-m", "vit_jax.compile", *arguments],
    capture_output=True,
    text=True,
    cwd=repo,
    env=environment,
  )


@pytest.mark.parametrize(
  ("arguments", "sentence"),
  [
    ((), "No experiment was named"),
    ((CONFIG,), "No topology was named: give --topology=GENERATION:GRID"),
    ((CONFIG, "--topology=v5e:16x16x16"), "a grid of 2 dimensions"),
    ((CONFIG, "--topology=v5x:4x4"), "there are TPUs v2, v3, v4, v5e, v5p,"),
    ((CONFIG, "--topology=v5e:2x2", "away"), 'Unexpected argument "away"'),
    ((CONFIG, "--topology=v5e:2x2", "--num_slices=0"), "num_slices"),
    ((CONFIG, "--topology=v5e:2x2", "--sweep_batches=8"), "is for --sweep"),
    (
      (CONFIG, "--topology=v5e:2x2", "--output=not/there/x"),
      "--output=not/there/x cannot be written: there is no directory not/there",
    ),
    (
      (CONFIG, "--topology=v5e:2x2", "--dump_hlo=."),
      "--dump_hlo=. is a directory",
    ),
  ],
)
def test_bad_input_is_a_sentence(repo, arguments, sentence):
  done = run(repo, *arguments)
  assert done.returncode == 1
  assert sentence in done.stderr and "Traceback" not in done.stderr


def test_without_the_compiler_it_is_said_what_to_install(repo, tmp_path):
  hidden = tmp_path / "sitecustomize.py"
  hidden.write_text(
    "import importlib.util as u\n"
    "find = u.find_spec\n"
    "u.find_spec = lambda n, *a: None if n == 'libtpu' else find(n, *a)\n"
  )
  done = run(repo, CONFIG, "--topology=v5e:2x2", PYTHONPATH=str(tmp_path))
  assert done.returncode == 1
  assert "pip install 'libtpu==0.0.51'" in done.stderr


def test_a_sweep_of_what_is_never_allowed_is_bad_input(repo):
  pytest.importorskip("libtpu")
  sweep = ("--sweep", "--sweep_batches=8", "--sweep_remat=sometimes")
  done = run(repo, CONFIG, "--topology=v5e:2x2", *sweep)
  assert done.returncode == 1
  assert "Every setting was rejected. " in done.stderr
  assert "config.model.remat" in done.stderr


@pytest.mark.slow
def test_figures_go_to_the_terminal_and_to_files(repo, tmp_path):
  pytest.importorskip("libtpu")
  output, program = tmp_path / "cost.json", tmp_path / "step.hlo"
  done = run(
    repo,
    CONFIG,
    "--topology=v5e:2x2",
    "--config.train.batch_size=16",
    f"--output={output}",
    f"--dump_hlo={program}",
  )
  assert done.returncode == 0, done.stderr
  assert done.stderr == ""
  assert "It fits into the 15.75 GiB of a device." in done.stdout
  assert json.loads(output.read_text())["fits"] is True
  assert program.read_text().startswith("HloModule")


@pytest.mark.slow
def test_a_sweep_names_the_fastest_that_fits(repo, tmp_path):
  pytest.importorskip("libtpu")
  output = tmp_path / "sweep.json"
  done = run(
    repo,
    CONFIG,
    "--topology=v5e:1x1",
    "--sweep",
    "--sweep_batches=4,8",
    "--sweep_remat=none",
    "--sweep_meshes=-1x1x1,3x1x1",
    f"--output={output}",
  )
  assert done.returncode == 0, done.stderr
  record = json.loads(output.read_text())
  assert len(record["trials"]) == 4
  refused = [trial for trial in record["trials"] if trial["refusal"]]
  assert {tuple(trial["mesh"]) for trial in refused} == {(3, 1, 1)}
  best = record["fastest"]
  assert best["images_per_second"] == max(
    trial["images_per_second"] or 0 for trial in record["trials"]
  )
  batch_size = best["batch_per_device"]
  assert f"--config.train.batch_size={batch_size}" in done.stdout
