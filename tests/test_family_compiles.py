"""What benchmarks/family_compiles.py compiles until it fits."""

import importlib.util
import json
import pathlib
import subprocess

import pytest

from vit_jax.paper import families
from vit_jax.report.tables import output


@pytest.fixture(scope="module")
def script(repo):
  """The script as a module."""
  path = repo / "benchmarks" / "family_compiles.py"
  spec = importlib.util.spec_from_file_location("family_compiles", path)
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module


@pytest.fixture
def compiler(script, monkeypatch):
  """Commands that were run, by a compiler whose devices hold 32 images."""
  commands = []

  def run(command, **unused):
    commands.append(command)
    (config,) = (a for a in command if a.startswith("--config="))
    (path,) = (a.partition("=")[2] for a in command if "--output=" in a)
    batch = int(config.partition("batch=")[2].partition(",")[0])
    found = {
      "topology": "h100:8",
      "num_devices": 8,
      "global_batch": batch,
      "hbm_bytes_per_device": {"total": batch * 2**20},
      "fits": batch <= 256,
      "param_count": 7,
      "estimated_step_seconds": batch / 1000,
    }
    pathlib.Path(path).write_text(json.dumps(found))
    return subprocess.CompletedProcess(command, 0, stderr="")

  monkeypatch.setattr(subprocess, "run", run)
  return commands


def test_every_network_and_size_is_compiled_once(script):
  wanted = [(r.name, r.image_size) for r in script.networks("")]
  assert len(wanted) == len(set(wanted))
  assert set(wanted) == {(r.name, r.image_size) for r in families.RESULTS}


def test_images_are_halved_until_they_fit(script, compiler, tmp_path):
  (large,) = (r for r in script.networks("Swin-B") if r.image_size == 384)
  assert script.make(tmp_path, large, "h100:8")
  batches = [" ".join(command) for command in compiler]
  assert len(batches) == 2
  assert "batch=512" in batches[0] and "batch=256" in batches[1]
  for command in batches:
    assert "--config.model.image_size=384" in command
    assert "--config.model.window_size=12" in command
  (step,) = script.steps(tmp_path, "h100:8")
  assert (step["model"], step["batch_size"]) == ("Swin-B", 256)
  assert step["step_seconds"] == 0.256


def test_what_was_compiled_is_not_compiled_again(script, compiler, tmp_path):
  (result,) = script.networks("Swin-T")
  assert script.make(tmp_path, result, "h100:8")
  count = len(compiler)
  assert script.make(tmp_path, result, "h100:8")
  assert len(compiler) == count


def test_a_failure_is_said_and_leaves_nothing(
  script, tmp_path, monkeypatch, capsys
):
  failed = subprocess.CompletedProcess([], 1, stderr="no compiler\n")
  monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
  (result,) = script.networks("Swin-T")
  assert not script.make(tmp_path, result, "h100:8")
  assert "Swin-T, 224 px" in (said := capsys.readouterr().out)
  assert "no compiler" in said
  assert script.steps(tmp_path, "h100:8") == []


def test_the_packaged_table_has_days_of_a_gpu_of_every_row():
  found = json.loads(output.render_families("json", "h100"))
  for row in found["rows"]:
    assert row["computed"]["chip_days"] > 0, row["row"]
