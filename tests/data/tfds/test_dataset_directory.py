import json

import pytest
from etils import epath

from vit_jax.data.tfds import dataset_directory
from vit_jax.errors import UserError

_FILES = ("dataset_info.json", "features.json")


def _prepare(data_dir, *names):
  for name in names:
    directory = data_dir / name
    directory.mkdir(parents=True)
    for file in _FILES:
      (directory / file).write_text("{}")


def _find(data_dir, name):
  path = dataset_directory.find(
    dataset_directory.DatasetName.parse(name), epath.Path(data_dir)
  )
  return path and str(path.relative_to(data_dir))


def test_newest_version_is_taken_unless_one_is_named(tmp_path):
  _prepare(tmp_path, "toy/2.9.0", "toy/2.10.0")
  assert _find(tmp_path, "toy") == "toy/2.10.0"
  assert _find(tmp_path, "toy:2.9.0") == "toy/2.9.0"
  assert _find(tmp_path, "toy:1.0.0") is None


def test_unfinished_preparations_do_not_count(tmp_path):
  _prepare(tmp_path, "toy/1.0.0", "toy/incomplete.AB_2.0.0")
  (tmp_path / "toy/3.0.0").mkdir()
  assert _find(tmp_path, "toy") == "toy/1.0.0"


def test_only_config_is_taken(tmp_path):
  _prepare(tmp_path, "toy/big/1.0.0")
  assert _find(tmp_path, "toy") == "toy/big/1.0.0"
  assert _find(tmp_path, "toy/big:1.0.0") == "toy/big/1.0.0"
  assert _find(tmp_path, "toy/small") is None


def test_default_config_is_taken_or_one_must_be_named(tmp_path):
  _prepare(tmp_path, "toy/big/1.0.0", "toy/small/1.0.0")
  with pytest.raises(UserError, match="one of toy/big, toy/small"):
    _find(tmp_path, "toy")
  (tmp_path / "toy/.config").mkdir()
  (tmp_path / "toy/.config/metadata.json").write_text(
    json.dumps({"default_config_name": "small"})
  )
  assert _find(tmp_path, "toy") == "toy/small/1.0.0"


def test_data_dir_falls_back_on_the_environment(monkeypatch, tmp_path):
  monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
  assert dataset_directory.resolve_data_dir(None) == tmp_path
  assert str(dataset_directory.resolve_data_dir("/x")) == "/x"
  monkeypatch.delenv("TFDS_DATA_DIR")
  monkeypatch.setenv("HOME", str(tmp_path))
  assert dataset_directory.resolve_data_dir(None) == (
    tmp_path / "tensorflow_datasets"
  )
