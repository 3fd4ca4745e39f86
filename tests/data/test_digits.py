import concurrent.futures
import io
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from sklearn import datasets

from vit_jax.data import sources
from vit_jax.data.digits import source as digits
from vit_jax.errors import UserError


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
  return str(tmp_path_factory.mktemp("data"))


def _images(data_dir, split):
  source = sources.open_source("digits", split, data_dir=data_dir)
  batch = source.read(np.arange(source.num_examples))
  images = [np.array(Image.open(io.BytesIO(png))) for png in batch["image"]]
  return np.stack(images), batch["label"]


def test_all_of_scikit_learns_digits_are_there_once(data_dir):
  images, labels = _images(data_dir, "train+test")
  reference = datasets.load_digits()

  def lines(images, labels):
    rows = np.concatenate([images.reshape(-1, 64), labels[:, None]], 1)
    return rows[np.lexsort(rows.T)]

  np.testing.assert_array_equal(
    lines(np.round(images / 255 * 16), labels),
    lines(reference.images, reference.target),
  )


def test_a_fifth_of_every_class_is_held_out(data_dir):
  (_, train), (_, test) = _images(data_dir, "train"), _images(data_dir, "test")
  shares = np.bincount(test) / (np.bincount(test) + np.bincount(train))
  assert (0.19 < shares).all() and (shares <= 0.2).all()


def test_two_preparations_are_the_same_dataset(data_dir, tmp_path):
  one = sources.open_source("digits", "test", data_dir=data_dir)
  two = sources.open_source("digits", "test", data_dir=str(tmp_path))
  assert one.fingerprint == two.fingerprint
  ids = np.arange(one.num_examples)
  assert (one.read(ids)["image"] == two.read(ids)["image"]).all()


def test_processes_may_prepare_at_once(tmp_path):
  script = (
    "import sys; from vit_jax.data import sources;"
    "s = sources.open_source('digits', 'train', data_dir=sys.argv[1]);"
    "print(s.num_examples, 'tensorflow' in sys.modules)"
  )
  command = [sys.executable, "-c", script, str(tmp_path)]
  with concurrent.futures.ThreadPoolExecutor(3) as pool:
    runs = list(
      pool.map(
        lambda _: subprocess.run(command, capture_output=True, text=True),
        range(3),
      )
    )
  for run in runs:
    assert run.returncode == 0, run.stderr
    assert run.stdout == "1442 False\n"
  assert [path.name for path in (tmp_path / "digits").iterdir()] == ["1.0.0"]


def test_preparing_twice_does_nothing(data_dir):
  path = digits.prepare(data_dir) / "dataset_info.json"
  before = path.stat().mtime
  digits.prepare(data_dir)
  assert path.stat().mtime == before


def test_place_that_cannot_be_written_to_is_named(tmp_path):
  (tmp_path / "file").write_text("")
  with pytest.raises(UserError, match="cannot be written to .*/file"):
    digits.prepare(str(tmp_path / "file"))
