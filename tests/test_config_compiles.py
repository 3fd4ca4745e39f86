"""Which configs benchmarks/config_compiles.py compiles, and what it prints."""

import importlib.util
import json
import sys

import pytest

from vit_jax.config import experiment_file, resolve


@pytest.fixture(scope="module")
def script(repo):
  """The script as a module."""
  path = repo / "benchmarks" / "config_compiles.py"
  spec = importlib.util.spec_from_file_location("config_compiles", path)
  module = importlib.util.module_from_spec(spec)
  sys.modules[spec.name] = module
  spec.loader.exec_module(module)
  yield module
  del sys.modules[spec.name]


def test_every_config_that_trains_is_compiled(script, repo):
  files = {name.partition(":")[0] for name in script.names()}
  shipped = {path.name for path in (repo / "configs").glob("[!_]*.py")}
  assert shipped - files == {"frozen_features.py", "zero_shot.py"}
  objectives = set()
  for name in script.names():
    path, _, arguments = name.partition(":")
    shipped = experiment_file.load(
      str(repo / "configs" / path), arguments or None
    )
    objectives.add(resolve.resolve(shipped).objective.name)
  assert objectives == {
    *("beit", "contrastive", "dino", "dinov2", "feature_prediction"),
    *("mae", "masked_patch", "supervised"),
  }


def test_what_does_not_fit_is_shown_with_what_does(script, tmp_path):
  def write(setting, total, seconds):
    figures = {
      "param_count": 2_500_000,
      "global_batch": 4096,
      "hbm_bytes_per_device": {"total": total * 2**30},
      "hbm_limit_bytes": 80 * 2**30,
      "fits": total <= 80,
      "estimated_step_seconds": seconds,
      "gpu_kernels": {"fusions": {"bytes": 2**31}, "copies": {"bytes": 2**30}},
    }
    path = script.place(tmp_path, "clip.py", setting)
    path.write_text(json.dumps(figures))

  assert script.row("clip.py", {}) == ["`clip.py`", *["-"] * 7]
  write("", 200, 0.5)
  whole = script.figures(tmp_path, "clip.py")
  assert script.row("clip.py", whole)[4] == "nothing tried"
  too_little = [
    script.is_too_little(whole[""], f"train.accumulate_steps={parts}")
    for parts in (2, 4, 8)
  ]
  assert too_little == [True, False, False]
  assert not script.is_too_little(whole[""], "model.remat=full")
  write("train.accumulate_steps=4", 60, 0.512)
  assert script.row("clip.py", script.figures(tmp_path, "clip.py")) == [
    "`clip.py`",
    "2.5 M",
    "4,096",
    "200.00 GiB",
    "`train.accumulate_steps=4`: 60.00 GiB",
    "3.00 GiB",
    "512.0 ms",
    "8,000",
  ]
