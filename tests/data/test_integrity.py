import pathlib

import numpy as np
import pytest
from PIL import Image

from vit_jax.data import folder, generated, integrity


@pytest.fixture
def photos(tmp_path):
  rng = np.random.default_rng(0)
  for split, count in (("train", 40), ("test", 2)):
    for i in range(count):
      pixels = rng.integers(0, 256, (32, 32, 3), np.uint8)
      suffix = ("jpg", "png", "webp", "bmp")[i % 4]
      path = tmp_path / split / "ab"[i % 2] / f"{i}.{suffix}"
      path.parent.mkdir(parents=True, exist_ok=True)
      Image.fromarray(pixels).save(path)
  return folder.open_source("", "train", data_dir=str(tmp_path))


def _damage(source, ids, keep=0.5):
  """Cuts image files off; returns their paths."""
  paths = [pathlib.Path(name) for name in source.names(np.array(ids))]
  for path in paths:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])
  return paths


def _problems(source):
  ids = np.arange(source.num_examples)
  return [p for _, p in integrity.unreadable(source, ids) if p]


def test_whole_images_of_every_kind_are_readable(photos):
  assert _problems(photos) == []
  assert integrity.explain(photos, np.arange(8)) is None


def test_generated_images_need_no_decoding():
  assert _problems(generated.open_source("examples=8", "train")) == []


def test_images_that_are_cut_off_are_found_in_order(photos):
  ids = range(3, 40, 5)
  paths = _damage(photos, ids)
  assert _problems(photos) == [f"{path} (damaged)" for path in paths]


def test_images_of_a_kind_that_is_not_read_are_not_called_damaged(photos):
  path = pathlib.Path(photos.names(np.array([5]))[0])
  Image.fromarray(np.ones((32, 32), np.float32)).save(path, "TIFF")
  says = f"{path} (32 bits a pixel; convert it to 8)"
  assert _problems(photos) == [says]


def test_progress_counts_every_record(photos):
  ids = np.arange(photos.num_examples)
  assert list(integrity.unreadable(photos, ids))[-1] == (40, "")


def test_damaged_batch_is_explained_with_all_other_damaged_images(
  photos, monkeypatch
):
  monkeypatch.setattr(integrity, "_SECONDS", float("inf"))
  paths = _damage(photos, [5, 30])
  paths += _damage(photos, [20], keep=0)
  message = str(integrity.explain(photos, np.array([4, 5, 5])))
  assert message.startswith("3 of the images cannot be read (all 40 were")
  assert message.index(f"{paths[0]} (damaged)") < message.index(str(paths[1]))
  assert f"{paths[2]} (empty file)" in message


def test_a_problem_of_many_images_is_named_once():
  problems = ["shard-0 is cut off"] * 30 + ["3.png (damaged)"]
  message = str(integrity.report(problems, 40, 40))
  assert message.startswith("31 of the images cannot be read")
  says = "shard-0 is cut off (30 images); 3.png (damaged). Remove"
  assert message.count("cut off") == 1 and says in message


def test_long_list_ends_with_a_count():
  problems = [f"file{i}" for i in range(25)]
  message = str(integrity.report(problems, 50, 100))
  assert message.startswith("25 of the images cannot be read (50 of 100 were")
  assert "file19; and 5 more. Remove" in message
