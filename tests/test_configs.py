"""Every shipped experiment resolves, shrinks and trains."""

import json
import pathlib

import pytest

from vit_jax import checks, command_line, records
from vit_jax.config import resolve
from vit_jax.errors import UserError
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


PRETRAIN = [p for p in FILES if p.stem == "pretrain"][0]


@pytest.mark.parametrize(
  ("arguments", "epochs", "base_lr", "decay", "weight_decay", "dropout"),
  [
    ("model=B/16,data=jft", 7, 8e-4, "linear", 0.1, 0.0),
    ("model=L/32,data=jft", 7, 6e-4, "linear", 0.1, 0.0),
    ("model=H/14,data=jft", 14, 3e-4, "linear", 0.1, 0.0),
    ("model=L/16,data=i21k", 90, 1e-3, "linear", 0.03, 0.1),
    ("model=B/32,data=i1k", 300, 3e-3, "cosine", 0.3, 0.1),
    ("model=B/32,data=i1k,epochs=90", 90, 3e-3, "cosine", 0.3, 0.1),
  ],
)
def test_pretraining_is_table_3_of_the_paper(
  arguments, epochs, base_lr, decay, weight_decay, dropout
):
  config = load(PRETRAIN, arguments)
  checks.check(config)
  assert config.train.batch_size == 4096
  assert config.schedule.warmup_steps == 10_000
  assert config.total_epochs == epochs
  assert config.schedule.base_lr == base_lr
  assert config.schedule.decay == decay
  assert config.optimizer.weight_decay == weight_decay
  assert config.model.dropout_rate == dropout


def test_a_pair_that_table_3_has_not_is_refused():
  with pytest.raises(UserError, match="no recipe for model=H/14 on data=i1k"):
    load(PRETRAIN, "model=H/14,data=i1k")


def test_pretraining_on_lists_of_labels_has_a_smoke_run_too(tmp_path):
  assert train(load(PRETRAIN, "data=jft,smoke"), str(tmp_path)) == 0
