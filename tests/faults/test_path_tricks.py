"""Names and links that lead elsewhere, and code that would run from files."""

import ast
import io
import json
import os
import pathlib
import shutil

import numpy as np
import pytest
from PIL import Image

from tests import experiments
from vit_jax import checks
from vit_jax.config import resolve
from vit_jax.data import sources
from vit_jax.errors import UserError
from vit_jax.train import train

PACKAGE = pathlib.Path(__file__).parents[2] / "vit_jax"
HTML = '<img src=x onerror="alert(1)">'


def picture(seed):
  rng = np.random.default_rng(seed)
  file = io.BytesIO()
  Image.fromarray(rng.integers(0, 256, (8, 8, 3), np.uint8)).save(file, "PNG")
  return file.getvalue()


@pytest.fixture
def folder(tmp_path):
  """data/{train,test}/{a,b} with images, beside a secret one."""
  for split in ("train", "test"):
    for number in range(8):
      path = tmp_path / "data" / split / "ab"[number % 2] / f"{number}.png"
      path.parent.mkdir(parents=True, exist_ok=True)
      path.write_bytes(picture(number))
  (tmp_path / "elsewhere" / "c").mkdir(parents=True)
  (tmp_path / "elsewhere" / "c" / "secret.png").write_bytes(picture(9))
  return tmp_path / "data"


def open_folder(root, split="train"):
  return sources.open_source("folder", split, data_dir=str(root))


@pytest.mark.parametrize(
  ("link", "target"),
  [
    ("train/a/stolen.png", "../../../elsewhere/c/secret.png"),
    ("train/c", "../../elsewhere/c"),
    ("val", "../elsewhere"),
  ],
)
def test_links_out_of_an_image_folder_are_refused(folder, link, target):
  (folder / link).symlink_to(target)
  with pytest.raises(UserError, match=f"{link} is a link to .*outside"):
    open_folder(folder)


def test_links_within_an_image_folder_are_followed(folder):
  (folder / "train/a/again.png").symlink_to("0.png")
  (folder / "val").symlink_to("test")
  assert open_folder(folder).num_examples == 9
  assert open_folder(folder, "val").num_examples == 8


def test_the_image_folder_itself_may_be_a_link(folder, tmp_path):
  (tmp_path / "link").symlink_to(folder)
  assert open_folder(tmp_path / "link").num_examples == 8


def test_pipes_and_folders_called_like_images_are_left_alone(folder):
  os.mkfifo(folder / "train/a/pipe.png")
  (folder / "train/b/folder.png").mkdir()
  assert open_folder(folder).num_examples == 8


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_a_class_that_cannot_be_listed_is_named(folder):
  (folder / "train/a").chmod(0)
  with pytest.raises(UserError, match="train/a cannot be listed"):
    open_folder(folder)


@pytest.mark.parametrize("name", ["../digits", "digits/..", "digits/../x"])
def test_names_of_datasets_lead_nowhere_else(name):
  with pytest.raises(UserError, match="is not the name of a dataset"):
    sources.check(name)


@pytest.mark.parametrize("name", ["..", "../../x", "a/b", "", ".", "/tmp/x"])
def test_names_of_evaluators_lead_nowhere_else(name):
  entry = {"type": "classification", "split": "test"}
  config = {**experiments.config().model_dump(), "evals": {name: entry}}
  with pytest.raises(UserError, match="file names"):
    checks.check(resolve.resolve(config))


def test_files_that_a_dataset_names_must_be_its_own(tmp_path):
  directory = tmp_path / "data"
  source = sources.open_source("digits", "train", data_dir=str(directory))
  assert source.num_examples
  (prepared,) = directory.glob("digits/*")
  shutil.copytree(prepared, tmp_path / "elsewhere")
  path = prepared / "dataset_info.json"
  info = json.loads(path.read_text())
  for split in info["splits"]:
    split["filepathTemplate"] = (
      "../../../elsewhere/{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
    )
  path.write_text(json.dumps(info))
  with pytest.raises(UserError, match="not in that directory|cannot be read"):
    sources.open_source("digits", "train", data_dir=str(directory))


@pytest.mark.slow
def test_names_of_classes_are_text_in_the_report(folder, tmp_path):
  for split in ("train", "test"):
    (folder / split / "b").rename(folder / split / HTML)
  workdir = tmp_path / "run"
  config = experiments.config(
    train__dataset="folder",
    data_dir=str(folder),
    train__batch_size=8,
    train__preprocess="decode|resize",
    total_steps=2,
  )
  before = set(tmp_path.iterdir())
  train(config, str(workdir))
  page = (workdir / "report" / "index.html").read_text()
  assert "onerror" in page and "<img src=x" not in page
  assert set(tmp_path.iterdir()) - before == {workdir}


FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "marshal", "shelve", "joblib"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}


def calls(tree):
  for node in ast.walk(tree):
    if isinstance(node, ast.Call):
      yield node


@pytest.mark.parametrize(
  "path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.name)
)
def test_no_code_runs_from_a_file(path):
  tree = ast.parse(path.read_text())
  imported = set()
  for node in ast.walk(tree):
    if isinstance(node, ast.Import):
      imported |= {alias.name.split(".")[0] for alias in node.names}
    elif isinstance(node, ast.ImportFrom) and node.module:
      imported.add(node.module.split(".")[0])
  assert not imported & FORBIDDEN_MODULES
  for call in calls(tree):
    if isinstance(call.func, ast.Name):
      assert call.func.id not in FORBIDDEN_CALLS
    given = {k.arg: ast.unparse(k.value) for k in call.keywords}
    assert given.get("allow_pickle", "False") == "False"
    assert given.get("shell", "False") == "False"
    assert "system" != getattr(call.func, "attr", None)
