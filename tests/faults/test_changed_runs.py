"""A run that is started again with something changed."""

import json

import pytest
from PIL import Image

from tests import experiments
from vit_jax import versions
from vit_jax.errors import UserError
from vit_jax.train import train
from vit_jax.training.experiment import Experiment


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
  made = tmp_path_factory.mktemp("run")
  assert train(experiments.config(total_steps=2, evals={}), str(made)) == 0
  return made


@pytest.mark.parametrize(
  ("changes", "line"),
  [
    ({"seed": 1}, "seed: was 0, is 1"),
    ({"model__width": 64}, "model.width: was 32, is 64"),
    ({"allow_change": "shcedule"}, "did you mean 'schedule'?"),
    (
      {"train__dataset": "generated:classes=4,size=8,examples=65"},
      'dataset_fingerprint: was "generated',
    ),
  ],
)
def test_what_changed_is_named_before_anything_compiles(
  workdir, monkeypatch, changes, line
):
  monkeypatch.setattr(Experiment, "compile", None)
  config = experiments.config(total_steps=2, evals={}, **changes)
  with pytest.raises(UserError) as error:
    train(config, str(workdir))
  assert line in str(error.value)


@pytest.mark.parametrize(
  ("changes", "line"),
  [
    (
      {"model__depth": 3, "allow_change": "model.depth"},
      "encoderblock_2/LayerNorm_0/bias was not there, is (32,)",
    ),
    (
      {"model__depth": 1, "allow_change": "model.depth"},
      "encoderblock_1/LayerNorm_0/bias was (32,), is not there",
    ),
    (
      {
        "train__dataset": "generated:classes=5,size=8,examples=64",
        "allow_change": "train.dataset,dataset_fingerprint",
      },
      "head/bias was (4,), is (5,); head/kernel was (32, 4), is (32, 5)",
    ),
    (
      {"ema_decay": 0.9, "allow_change": "ema_decay"},
      "its training state would change (ema_params/",
    ),
    (
      {"ema_decay": 0.9, "allow_change": "ema_decay"},
      "Changed by config.allow_change: ema_decay (was unset, is 0.9). The",
    ),
    (
      {"faults__spike_zscore": None, "allow_change": "faults"},
      "faults.spike_zscore (was 8.0, is unset)",
    ),
    (
      {
        "optimizer__layer_decay": 0.7,
        "allow_change": "optimizer.layer_decay",
      },
      "optimizer.layer_decay (was unset, is 0.7)",
    ),
  ],
)
def test_a_state_of_other_shapes_cannot_go_on_and_is_left_whole(
  workdir, monkeypatch, changes, line
):
  monkeypatch.setattr(Experiment, "compile", None)
  config = experiments.config(total_steps=2, evals={}, **changes)
  with pytest.raises(UserError) as error:
    train(config, str(workdir))
  message = str(error.value)
  assert line in message
  assert f"--config.init_from={workdir}" in message
  assert len(message.splitlines()) == 1
  names = {path.name for path in (workdir / "checkpoints").iterdir()}
  assert names == {"2"}


def test_another_version_is_named_and_may_be_allowed(workdir, monkeypatch):
  installed = versions.installed() | {"jax": "0.0.1"}
  monkeypatch.setattr(versions, "installed", lambda: installed)
  config = experiments.config(total_steps=2, evals={})
  with pytest.raises(UserError, match='versions.jax: was ".*", is "0.0.1"'):
    train(config, str(workdir))
  config = experiments.config(total_steps=2, evals={}, allow_change="versions")
  assert train(config, str(workdir)) == 0


def test_the_price_may_change_and_is_that_of_all_starts(workdir):
  costs, hours = [], []
  for price in (None, 3.0, 5.0):
    config = experiments.config(
      total_steps=2, evals={}, log__price_per_device_hour=price
    )
    assert train(config, str(workdir)) == 0
    summary = json.loads((workdir / "summary.json").read_text())
    costs.append(summary["estimated_cost"])
    hours.append(summary["goodput"]["device_hours"])
  assert 0 < hours[0] < hours[1] < hours[2]
  assert costs[0] is None
  assert costs[1:] == pytest.approx([3 * hours[1], 5 * hours[2]])
  assert "device-hours at 5 each" in (
    (workdir / "report" / "index.html").read_text()
  )


def _photos(root, names):
  root.mkdir()
  for label in range(2):
    for name in names:
      path = root / "train" / f"class{label}" / f"{name}.png"
      path.parent.mkdir(parents=True, exist_ok=True)
      Image.new("RGB", (8, 8), (40 * label, int(name), 0)).save(path)


def _train_on(data_dir, workdir, total_steps):
  config = experiments.config(
    total_steps=total_steps,
    evals={},
    train__dataset="folder",
    data_dir=str(data_dir),
    allow_change="total_steps",
  )
  return train(config, str(workdir))


def test_a_run_resumes_where_its_data_were_moved(tmp_path):
  photos, moved = tmp_path / "photos", tmp_path / "moved"
  _photos(photos, range(20))
  assert _train_on(photos, tmp_path / "run", 2) == 0
  photos.rename(moved)
  assert _train_on(moved, tmp_path / "run", 4) == 0


def test_other_data_in_another_directory_are_refused(tmp_path):
  photos, others = tmp_path / "photos", tmp_path / "others"
  _photos(photos, range(20))
  _photos(others, range(1, 21))
  assert _train_on(photos, tmp_path / "run", 2) == 0
  with pytest.raises(UserError, match="config.data_dir was .*photos.*others"):
    _train_on(others, tmp_path / "run", 4)
