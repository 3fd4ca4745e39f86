"""A family, an objective and an evaluator from outside train like our own.

The package is not edited for them: they register themselves, and the config
names their modules. CONTRIBUTING.md shows these very files.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
REPO = HERE.parents[1]
MODULES = ("toy_convnet", "two_views", "spread")


def command(name, *args, devices=4, **settings):
  """Runs a command as a user of the three modules would."""
  paths = [str(HERE), str(REPO), os.environ.get("PYTHONPATH", "")]
  env = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    "JAX_NUM_CPU_DEVICES": str(devices),
  }
  return subprocess.Popen(
    [sys.executable, "-m", f"vit_jax.{name}", *args],
    env=env,
    cwd=HERE,
    text=True,
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    **settings,
  )


def done(process):
  output, errors = process.communicate(timeout=600)
  assert process.returncode == 0, errors
  return output


def train(workdir, *overrides):
  return command(
    "train",
    "--config=experiment.py",
    f"--workdir={workdir}",
    "--config.mesh.fsdp=2",
    *overrides,
  )


def lines(workdir):
  """Metrics by step, without what the clock decides."""
  found = {}
  for line in (workdir / "metrics.jsonl").read_text().splitlines():
    line = json.loads(line)
    values = {k: v for k, v in line.items() if not k.startswith("perf/")}
    found.setdefault(line["step"], {}).update(values)
  return found


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
  workdir = tmp_path_factory.mktemp("extension") / "run"
  return workdir, done(train(workdir))


@pytest.mark.slow
def test_they_train_on_a_mesh(finished):
  workdir, output = finished
  assert "finished at step 12" in output
  metrics = lines(workdir)
  assert metrics[12]["train/loss"] < metrics[1]["train/loss"] / 2
  assert metrics[12]["train/agreement"] > 0.9
  assert {"spread/features/deviation"} <= metrics[8].keys()


@pytest.mark.slow
def test_a_run_killed_between_saves_resumes_to_the_bit(finished, tmp_path):
  workdir = tmp_path / "run"
  process = train(workdir)
  for line in process.stdout:
    if line.startswith("step  6/12"):
      process.send_signal(signal.SIGKILL)
      break
  process.communicate()
  assert process.returncode == -signal.SIGKILL
  done(train(workdir))
  assert lines(workdir) == lines(finished[0])


@pytest.mark.slow
def test_another_frozen_network_is_refused(finished):
  process = train(
    finished[0],
    "--config.objective.frozen_seed=8",
    "--config.allow_change=objective.frozen_seed",
  )
  _, errors = process.communicate(timeout=600)
  assert process.returncode == 1
  assert "random:7" in errors and "random:8" in errors


@pytest.mark.slow
def test_the_teacher_is_what_is_loaded_and_exported(finished, tmp_path):
  workdir, _ = finished
  exported = tmp_path / "teacher.stablehlo"
  done(command("convert", str(workdir), str(exported)))
  code = f"""
import jax, numpy as np, vit_jax
from vit_jax.checkpoint import store

workdir = {str(workdir)!r}
images = np.random.default_rng(0).integers(0, 256, (2, 16, 16, 3), np.uint8)
model, loaded = vit_jax.load(workdir)
student = store.read_params(workdir, 12)
teacher = store.read_params(workdir, 12, lambda params, state: state["teacher"])
jax.tree.map(np.testing.assert_array_equal, loaded, teacher)
assert not np.array_equal(
  student["layer_0"]["kernel"], teacher["layer_0"]["kernel"]
)
with open({str(exported)!r}, "rb") as file:
  program = jax.export.deserialize(bytearray(file.read()))
np.testing.assert_allclose(
  program.call(images), model.apply({{"params": teacher}}, images), atol=1e-6
)
"""
  env = {**os.environ, "PYTHONPATH": f"{HERE}{os.pathsep}{REPO}"}
  subprocess.run([sys.executable, "-c", code], check=True, env=env, cwd=HERE)


@pytest.mark.slow
def test_a_file_of_a_family_from_outside_names_its_module(finished, tmp_path):
  workdir, _ = finished
  file = tmp_path / "teacher.npz"
  done(command("convert", str(workdir), str(file)))
  process = command("convert", str(file), str(tmp_path / "again.npz"))
  _, errors = process.communicate(timeout=600)
  assert process.returncode == 1
  assert "model.name = 'toy_convnet'" in errors
  assert "import toy_convnet first" in errors
  code = f"import toy_convnet, vit_jax; vit_jax.load({str(file)!r})"
  env = {**os.environ, "PYTHONPATH": f"{HERE}{os.pathsep}{REPO}"}
  subprocess.run([sys.executable, "-c", code], check=True, env=env, cwd=HERE)


@pytest.mark.slow
def test_a_run_from_a_file_starts_its_teacher_there(finished, tmp_path):
  done(
    train(
      tmp_path / "run",
      f"--config.init_from={finished[0]}",
      "--config.schedule.base_lr=1e-9",
      "--config.total_steps=4",
    )
  )
  code = f"""
import jax, numpy as np, vit_jax

_, given = vit_jax.load({str(finished[0])!r})
_, teacher = vit_jax.load({str(tmp_path / "run")!r})
jax.tree.map(
  lambda *x: np.testing.assert_allclose(*x, atol=1e-6), teacher, given
)
"""
  env = {**os.environ, "PYTHONPATH": f"{HERE}{os.pathsep}{REPO}"}
  subprocess.run([sys.executable, "-c", code], check=True, env=env, cwd=HERE)


@pytest.mark.slow
def test_the_report_explains_what_it_never_heard_of(finished):
  workdir, _ = finished
  page = (workdir / "report" / "index.html").read_text()
  for words in (
    "Spread of features",
    "Standard deviation of normalised features",
    "agreement of two views",
    "running average, momentum 0.8",
  ):
    assert words in page


def test_a_module_that_is_missing_is_a_sentence(tmp_path):
  process = command(
    "train",
    "--config=experiment.py",
    f"--workdir={tmp_path}",
    "--config.extensions=('toy_convnet','nowhere')",
  )
  _, errors = process.communicate(timeout=600)
  assert process.returncode == 1
  assert "config.extensions: 'nowhere' cannot be imported" in errors
  assert "Traceback" not in errors


@pytest.mark.parametrize("module", MODULES)
def test_contributing_shows_these_files_word_for_word(module):
  text = (REPO / "CONTRIBUTING.md").read_text()
  shown = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
  assert (HERE / f"{module}.py").read_text() in shown
