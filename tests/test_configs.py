"""Every shipped experiment resolves, shrinks and trains."""

import json
import pathlib

import pytest

from vit_jax import checks, command_line, records
from vit_jax.config import resolve
from vit_jax.train import train

FILES = sorted(
  path
  for path in (pathlib.Path(__file__).parents[1] / "configs").glob("*.py")
  if not path.name.startswith("_")
)

every_config = pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)


def load(path, arguments=None):
  return resolve.resolve(command_line.load_config(str(path), arguments))


@every_config
def test_it_passes_all_checks(path):
  checks.check(load(path))


@every_config
def test_its_smoke_run_trains_evaluates_and_reports(path, tmp_path):
  config = load(path, "smoke")
  checks.check(config)
  assert train(config, str(tmp_path)) == 0
  lines = records.read_lines(tmp_path / "metrics.jsonl")
  trained = [line["step"] for line in lines if "train/loss" in line]
  assert trained == [1, 2, 3, 4]
  assert [line["step"] for line in lines if "train/loss" not in line] == [2, 4]
  assert (tmp_path / "report" / "index.html").exists()
  summary = json.loads((tmp_path / "summary.json").read_text())
  assert summary["status"] == "finished"


@every_config
def test_its_smoke_run_keeps_what_is_studied(path):
  full, small = load(path), load(path, "smoke")
  assert small.objective == full.objective
  assert small.optimizer == full.optimizer
  assert small.train.preprocess == full.train.preprocess
  assert small.schedule.decay == full.schedule.decay
  assert small.evals.keys() == full.evals.keys()


def test_the_jft_run_is_the_papers():
  config = load([p for p in FILES if p.stem == "vit_h14_jft"][0])
  # Table 3 and section 4.1 of arXiv 2010.11929.
  assert config.train.batch_size == 4096
  assert config.schedule.base_lr == 3e-4
  assert config.schedule.warmup_steps == 10_000
  assert config.schedule.decay == "linear"
  assert config.optimizer.weight_decay == 0.1
  assert (config.optimizer.b1, config.optimizer.b2) == (0.9, 0.999)
  epochs = config.total_steps * 4096 / 303e6
  assert epochs == pytest.approx(14, rel=1e-6)
