"""An index and its folder: what is embedded when, and what survives.

Embeddings here are a function of the bytes of a file, so no network is needed.
"""

import dataclasses
import errno
import hashlib
import json
import os
import pathlib

import numpy as np
import pytest

from vit_jax.data.image_files import ImageFile
from vit_jax.errors import UserError
from vit_jax.searching import index as indexes
from vit_jax.searching import updating

SIZE = 6


def embedding(content: bytes) -> np.ndarray:
  seed = int.from_bytes(hashlib.sha256(content).digest()[:8], "big")
  row = np.random.default_rng(seed).standard_normal(SIZE).astype(np.float32)
  return row / np.linalg.norm(row)


class Embedder:
  """Embeds files and remembers which; `dies_after` files it raises."""

  def __init__(self, dies_after: int | None = None):
    self.embedded: list[str] = []
    self._dies_after = dies_after

  def __call__(self, paths):
    for path in paths:
      if len(self.embedded) == self._dies_after:
        raise KeyboardInterrupt
      self.embedded.append(os.path.basename(path))
      try:
        content = pathlib.Path(path).read_bytes()
      except OSError:
        yield ImageFile(path, None, f"{path} cannot be read."), None
        continue
      if content.startswith(b"no image"):
        yield ImageFile(path, None, f"{path} is damaged."), None
      else:
        yield ImageFile(path, np.zeros((2, 2, 3), np.uint8)), embedding(content)


@pytest.fixture
def folder(tmp_path):
  folder = tmp_path / "photos"
  (folder / "below").mkdir(parents=True)
  for number in range(22):
    name = f"{number:02d}.jpg" if number % 2 else f"below/{number:02d}.png"
    (folder / name).write_bytes(f"image {number}".encode())
  return folder


@pytest.fixture
def source(folder):
  return indexes.Source(str(folder), "a.npz", None, "fingerprint")


@pytest.fixture
def update(tmp_path, source):
  """Updates the index in shards of four; gives it and what was embedded."""

  def update(place=tmp_path / "index", dies_after=None):
    embed = Embedder(dies_after)
    found = updating.update(str(place), source, embed, shard_size=4)
    return found, embed.embedded

  return update


def rows(found):
  """Path below the folder -> embedding."""
  return {
    entry.path: row
    for shard in found.shards
    for entry, row in zip(shard.entries, shard.embeddings, strict=True)
  }


def check_complete(found, folder):
  """Each image has one row, which is its own."""
  files = [p for p in folder.rglob("*") if p.suffix in (".jpg", ".png")]
  contents = {str(p.relative_to(folder)): p.read_bytes() for p in files}
  wanted = {k: c for k, c in contents.items() if not c.startswith(b"no image")}
  assert found.num_images == len(wanted)
  assert rows(found).keys() == wanted.keys()
  for path, row in rows(found).items():
    np.testing.assert_array_equal(row, embedding(wanted[path]))


def content_of(place):
  """All files that make an index."""
  return {path.name: path.read_bytes() for path in place.iterdir()}


def test_every_image_has_its_embedding(update, folder):
  found, embedded = update()
  check_complete(found, folder)
  assert len(embedded) == 22


def test_an_image_is_the_nearest_to_its_own_embedding(update, folder):
  found, _ = update()
  query = embedding((folder / "07.jpg").read_bytes())
  (hits,) = found.search(query[None], 3)
  assert hits[0].path == str(folder / "07.jpg")
  assert hits[0].score == pytest.approx(1, abs=1e-6)
  assert hits[0].score > hits[1].score > hits[2].score


def test_an_index_that_fits_is_neither_embedded_nor_written(
  update, folder, tmp_path
):
  update()
  before = {p: p.stat().st_mtime_ns for p in (tmp_path / "index").iterdir()}
  found, embedded = update()
  assert embedded == []
  check_complete(found, folder)
  after = {p: p.stat().st_mtime_ns for p in (tmp_path / "index").iterdir()}
  assert before == after


@pytest.mark.parametrize("dies_after", [0, 3, 4, 9, 21])
def test_an_update_continued_after_a_kill_gives_the_same_files(
  update, tmp_path, dies_after
):
  update(tmp_path / "whole")
  with pytest.raises(KeyboardInterrupt):
    update(tmp_path / "killed", dies_after=dies_after)
  _, embedded = update(tmp_path / "killed")
  assert len(embedded) == 22 - dies_after // 4 * 4
  assert content_of(tmp_path / "whole") == content_of(tmp_path / "killed")


def test_files_that_a_kill_left_half_written_do_no_harm(
  update, folder, tmp_path
):
  place = tmp_path / "index"
  with pytest.raises(KeyboardInterrupt):
    update(dies_after=9)
  (place / ".000002.npy.123.partial").write_bytes(b"half")
  (place / "000002.npy").write_bytes(b"unsealed")
  found, _ = update()
  check_complete(found, folder)
  assert not list(place.glob(".*"))


def test_new_changed_and_removed_images_are_noticed(update, folder):
  update()
  (folder / "new.jpg").write_bytes(b"new")
  (folder / "01.jpg").write_bytes(b"another size")
  same_size = folder / "03.jpg"
  same_size.write_bytes(same_size.read_bytes()[::-1])
  os.utime(same_size, ns=(1, 1))
  (folder / "05.jpg").unlink()
  found, embedded = update()
  assert sorted(embedded) == ["01.jpg", "03.jpg", "new.jpg"]
  check_complete(found, folder)


def test_many_small_updates_leave_few_shards(update, folder):
  for number in range(40):
    (folder / f"{number}.jpg").write_bytes(str(number).encode())
    found, _ = update()
  check_complete(found, folder)
  assert len(found.shards) <= 62 // 2 + updating.MAX_PARTIAL
  partial = [s for s in found.shards if len(s.entries) < 2]
  assert len(partial) <= updating.MAX_PARTIAL


def test_an_entry_that_a_killed_merge_left_twice_counts_once(
  update, folder, tmp_path
):
  found, _ = update()
  place = tmp_path / "index"
  for suffix in ("npy", "json"):
    copy = (place / f"000000.{suffix}").read_bytes()
    (place / f"000009.{suffix}").write_bytes(copy)
  found, embedded = update()
  assert embedded == []
  check_complete(found, folder)


def change_a_bit(path):
  content = bytearray(path.read_bytes())
  content[-1] ^= 1
  path.write_bytes(content)


@pytest.mark.parametrize(
  ("name", "damage"),
  [
    ("000001.npy", change_a_bit),
    ("000001.npy", lambda path: path.write_bytes(path.read_bytes()[:-9])),
    ("000001.npy", pathlib.Path.unlink),
    ("000001.json", lambda path: path.write_bytes(b"")),
    ("000001.json", lambda path: path.write_bytes(path.read_bytes()[:99])),
    ("000001.json", lambda path: path.write_text("[1]")),
    ("000001.json", pathlib.Path.unlink),
  ],
)
def test_only_the_images_of_a_damaged_shard_are_embedded_again(
  update, folder, tmp_path, caplog, name, damage
):
  update()
  damage(tmp_path / "index" / name)
  found, embedded = update()
  assert len(embedded) == 4
  check_complete(found, folder)
  if (name, damage) != ("000001.json", pathlib.Path.unlink):
    assert "000001" in caplog.text and "embedded again" in caplog.text


def test_a_damaged_shard_is_left_out_of_an_index_read_as_it_is(
  update, source, tmp_path, caplog
):
  update()
  change_a_bit(tmp_path / "index" / "000001.npy")
  found = indexes.load(str(tmp_path / "index"), source)
  assert found.num_images == 18
  assert "000001.npy" in caplog.text and "left out" in caplog.text


def test_files_that_are_no_images_are_named_once_and_kept_in_mind(
  update, folder, caplog
):
  (folder / "00.jpg").write_bytes(b"no image")
  (folder / "zz.jpg").write_bytes(b"no image")
  found, _ = update()
  check_complete(found, folder)
  assert [entry.path for entry in found.unreadable] == ["00.jpg", "zz.jpg"]
  assert "zz.jpg is damaged" in caplog.text
  caplog.clear()
  found, embedded = update()
  assert embedded == [] and "zz.jpg" not in caplog.text
  assert [entry.path for entry in found.unreadable] == ["00.jpg", "zz.jpg"]
  (folder / "zz.jpg").write_bytes(b"repaired")
  found, embedded = update()
  assert embedded == ["zz.jpg"]
  check_complete(found, folder)
  assert [entry.path for entry in found.unreadable] == ["00.jpg"]


def test_a_folder_of_damaged_files_alone_makes_an_index_of_nothing(
  update, folder
):
  for path in folder.rglob("*.*"):
    path.write_bytes(b"no image")
  found, _ = update()
  assert found.num_images == 0 and len(found.unreadable) == 22
  assert found.search(np.ones((1, SIZE), np.float32), 5) == [[]]


def test_a_file_that_could_not_be_opened_is_tried_again(update, folder):
  (folder / "gone.jpg").symlink_to(folder / "nowhere")
  found, embedded = update()
  assert "gone.jpg" in embedded
  assert all(shard.unreadable == [] for shard in found.shards)
  _, embedded = update()
  assert embedded == ["gone.jpg"]
  (folder / "nowhere").write_bytes(b"there")
  found, embedded = update()
  assert embedded == ["gone.jpg"] and found.unreadable == []
  assert "gone.jpg" in rows(found)


def test_files_that_cannot_be_opened_are_listed_but_not_written(
  update, folder, monkeypatch, caplog
):
  (folder / "gone.jpg").symlink_to(folder / "nowhere")
  (folder / "05.jpg").write_bytes(b"no image")
  update()

  def refused(place):
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(place))

  # Nothing has changed that could be written.
  monkeypatch.setattr(updating.workdir_lock, "WorkdirLock", refused)
  caplog.clear()
  found, _ = update()
  assert [e.path for e in found.unreadable] == ["05.jpg", "gone.jpg"]
  assert "gone.jpg cannot be read" in found.unreadable[1].problem
  assert "gone.jpg cannot be read" in caplog.text
  assert found.num_images == 21
  (folder / "new.jpg").write_bytes(b"new")
  with pytest.raises(UserError, match="cannot be written .Read-only"):
    update()


def test_an_index_of_another_checkpoint_is_refused(source):
  other = dataclasses.replace(
    source, checkpoint="runs/b", step=300, fingerprint="other"
  )
  with pytest.raises(UserError) as error:
    indexes.check(source, other, "photos.index")
  for words in ("a.npz", "runs/b, step 300", "another --index", "remove"):
    assert words in str(error.value)


def test_an_index_of_another_folder_is_refused(source, tmp_path):
  other = dataclasses.replace(source, images=str(tmp_path))
  with pytest.raises(UserError, match="is an index of .*photos, not of"):
    indexes.check(source, other, "photos.index")


def test_an_index_follows_a_folder_that_has_moved(
  update, folder, source, tmp_path
):
  update()
  moved = folder.rename(tmp_path / "moved")
  file = tmp_path / "index" / indexes.FILE
  content = json.loads(file.read_text())
  file.write_text(json.dumps({**content, "images": str(moved)}))
  source = indexes.source_of(str(tmp_path / "index"))
  embed = Embedder()
  found = updating.update(str(tmp_path / "index"), source, embed, shard_size=4)
  assert embed.embedded == []
  check_complete(found, moved)


def test_an_empty_folder_takes_nothing_from_its_index(
  update, folder, source, tmp_path
):
  update()
  folder.rename(tmp_path / "elsewhere")
  with pytest.raises(UserError, match="photos does not exist"):
    update()
  folder.mkdir()
  with pytest.raises(UserError, match="photos holds no images"):
    update()
  assert indexes.load(str(tmp_path / "index"), source).num_images == 22


def test_a_folder_that_is_a_file_is_refused(source, folder, tmp_path):
  file = dataclasses.replace(source, images=str(folder / "01.jpg"))
  with pytest.raises(UserError, match="is a file; give the folder"):
    updating.update(str(tmp_path / "index"), file, Embedder())


def test_what_lies_in_the_directory_tells_if_there_is_an_index(
  update, source, tmp_path
):
  place = tmp_path / "index"
  assert indexes.source_of(str(place)) is None
  place.mkdir()
  assert indexes.source_of(str(place)) is None
  update()
  assert indexes.source_of(str(place)) == source
  (place / indexes.FILE).write_text('{"format": 9}')
  with pytest.raises(UserError, match="another version"):
    indexes.source_of(str(place))
  (place / indexes.FILE).write_text('{"format": 1, "images')
  with pytest.raises(UserError, match="is damaged; remove"):
    indexes.source_of(str(place))


def test_a_directory_of_other_files_is_no_place_for_an_index(folder):
  with pytest.raises(UserError, match="holds other files"):
    indexes.source_of(str(folder))
  with pytest.raises(UserError, match="holds other files"):
    indexes.source_of(str(folder / "01.jpg"))


def test_an_index_in_a_bucket_is_refused():
  with pytest.raises(UserError, match="not on a local disk"):
    indexes.source_of("gs://bucket/index")


def test_names_that_are_no_unicode_are_indexed(update, folder):
  name = os.fsdecode(b"\xff.jpg")
  (folder / name).write_bytes(b"odd")
  update()
  found, embedded = update()
  assert embedded == [] and name in rows(found)
