"""Hashes of a whole source, once each, whatever befalls the work."""

import dataclasses

import numpy as np
import pytest

from vit_jax.data import outages
from vit_jax.data.deduplication import hash_file, perceptual_hash
from vit_jax.errors import UserError


def complete(path, source, num_threads=3):
  """Returns what was shown on the way."""
  seen = []
  hash_file.complete(
    path,
    source,
    num_threads=num_threads,
    show=lambda done, total: seen.append((done, total)),
  )
  return seen


@pytest.fixture
def pictures(memory_source, encode, smooth):
  """150 of different sizes; the first is blank, the last is no image."""
  images = [encode(smooth(20 + i % 7, 30, seed=i), "JPEG") for i in range(149)]
  images[0] = encode(np.full((9, 9, 3), 255, np.uint8))
  return memory_source([*images, b"text"], np.zeros(150, np.int32))


def test_records_stand_in_the_order_of_the_images(pictures, tmp_path):
  path = tmp_path / "x.hashes"
  complete(path, pictures)
  records = hash_file.read(path, 0, 1000)
  assert records["state"].tolist() == (
    [hash_file.FLAT] + [hash_file.GOOD] * 148 + [hash_file.UNREADABLE]
  )
  views = np.stack(
    [perceptual_hash.thumbnails(image) for image in pictures.images[1:149]]
  )
  for view in range(perceptual_hash.VIEWS):
    np.testing.assert_array_equal(
      records["hash"][1:149, view], perceptual_hash.hashes(views[:, view])
    )
  np.testing.assert_array_equal(hash_file.read(path, 70, 5), records[70:75])


def test_the_number_of_threads_changes_nothing(pictures, tmp_path):
  for number in (1, 5):
    complete(tmp_path / str(number), pictures, number)
  assert (tmp_path / "1").read_bytes() == (tmp_path / "5").read_bytes()


@pytest.mark.parametrize("size", [0, 1, 100, 3000, 3333])
def test_what_is_there_is_not_computed_again(pictures, tmp_path, size):
  path = tmp_path / "x.hashes"
  complete(path, pictures)
  whole = path.read_bytes()
  path.write_bytes(whole[:size])  # A kill was here.
  read = []

  @dataclasses.dataclass
  class Counting(type(pictures)):
    def read(self, ids):
      read.extend(np.asarray(ids).tolist())
      return super().read(ids)

  again = Counting(pictures.images, pictures.labels)
  complete(path, again)
  assert path.read_bytes() == whole
  assert sorted(set(read)) == list(
    range(size // hash_file.RECORD.itemsize, 150)
  )


def test_progress_is_that_of_all_images(pictures, tmp_path):
  path = tmp_path / "x.hashes"
  assert complete(path, pictures)[-1] == (150, 150)
  assert complete(path, pictures) == []


def test_a_record_that_cannot_be_read_does_not_spoil_its_neighbours(
  pictures, tmp_path
):
  @dataclasses.dataclass
  class Broken(type(pictures)):
    def read(self, ids):
      if 5 in ids:
        raise UserError("record 5 is damaged")
      return super().read(ids)

  complete(tmp_path / "a", pictures)
  complete(tmp_path / "b", Broken(pictures.images, pictures.labels))
  whole, broken = (hash_file.read(tmp_path / n, 0, 150) for n in "ab")
  assert broken["state"][5] == hash_file.UNREADABLE
  np.testing.assert_array_equal(np.delete(broken, 5), np.delete(whole, 5))


def test_raw_arrays_are_hashed_too(memory_source, smooth, encode, tmp_path):
  pixels = np.stack([smooth(16, 16, seed=i) for i in range(5)])
  labels = np.zeros(5, np.int32)
  complete(tmp_path / "raw", memory_source(pixels, labels))
  files = [encode(image) for image in pixels]
  complete(tmp_path / "files", memory_source(files, labels))
  assert (tmp_path / "raw").read_bytes() == (tmp_path / "files").read_bytes()


def test_a_middle_without_content_is_no_view(memory_source, encode, tmp_path):
  """Two images that have but a blank middle in common are not alike."""
  pixels = np.zeros((32, 96, 3), np.uint8)
  pixels[:, :20] = np.random.default_rng(0).integers(0, 256, (32, 20, 3))
  source = memory_source([encode(pixels)], np.zeros(1, np.int32))
  complete(tmp_path / "x", source)
  (record,) = hash_file.read(tmp_path / "x", 0, 1)
  assert record["state"] == hash_file.GOOD
  np.testing.assert_array_equal(record["hash"][0], record["hash"][1])


def test_a_file_belongs_to_one_source(pictures, tmp_path):
  other = dataclasses.replace(pictures, fingerprint="other")
  paths = {
    hash_file.path_of(tmp_path, "~/a b@test[:5%]", source)
    for source in (pictures, pictures, other)
  }
  assert len(paths) == 2
  # Folders of the same names have fingerprints that are alike.
  name = "./photos@train"
  assert hash_file.path_of(tmp_path, name, pictures, "/a") != (
    hash_file.path_of(tmp_path, name, pictures, "/b")
  )
  for path in paths:
    assert path.parent == tmp_path
    assert path.name.startswith("a_b_test_5-")


def test_other_images_of_the_same_records_have_hashes_of_their_own(
  pictures, tmp_path
):
  """The fingerprint of a TFDS dataset does not tell them apart."""
  paths = {
    hash_file.path_of(tmp_path, "a@train", pictures, image_key=key)
    for key in ("", "left", "right")
  }
  assert len(paths) == 3


def test_an_outage_of_a_storage_is_no_unreadable_image(pictures, tmp_path):
  path = tmp_path / "x.hashes"
  complete(path, pictures)
  expected = path.read_bytes()
  path.unlink()

  @dataclasses.dataclass
  class Failing(type(pictures)):
    def read(self, ids):
      if max(ids) >= 64:
        raise outages.StorageError("The disk has not answered.")
      return super().read(ids)

  failing = Failing(pictures.images, pictures.labels)
  with pytest.raises(UserError, match="The disk has not answered"):
    complete(path, failing)
  complete(path, pictures)
  assert path.read_bytes() == expected


def test_a_directory_that_cannot_be_written_is_named(pictures, tmp_path):
  (tmp_path / "file").write_text("")
  with pytest.raises(UserError, match="file/x.hashes cannot be written"):
    complete(tmp_path / "file" / "x.hashes", pictures)


def test_two_commands_do_not_write_one_file(pictures, tmp_path):
  path = tmp_path / "x.hashes"
  refused = []

  @dataclasses.dataclass
  class Meeting(type(pictures)):
    def read(self, ids):
      with pytest.raises(UserError, match="Another command is using"):
        complete(path, pictures)
      refused.append(len(ids))
      return super().read(ids)

  complete(path, Meeting(pictures.images, pictures.labels))
  assert sum(refused) == 150
