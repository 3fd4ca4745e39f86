import gzip
import io
import tarfile

import numpy as np
import pytest

from tests.data.building import pictures
from vit_jax.data import sources
from vit_jax.errors import UserError


def test_the_class_is_the_name_of_the_tar(tmp_path):
  pictures.tars(tmp_path / "tars", count=20)
  built = pictures.make(tmp_path, tmp_path / "tars")
  assert built.splits == {"train": 20}
  expected = [(pictures.png(i), i % 3) for i in range(20)]
  assert sorted(pictures.pairs(tmp_path)) == sorted(expected)
  source = sources.open_source("toy", "train", data_dir=str(tmp_path))
  assert source.class_names == pictures.CLASSES


def test_folders_of_tars_are_splits(tmp_path):
  pictures.tars(tmp_path / "tars/train", count=9)
  pictures.tars(tmp_path / "tars/validation", count=6)
  built = pictures.make(tmp_path, tmp_path / "tars")
  assert built.splits == {"train": 9, "validation": 6}
  assert len(pictures.pairs(tmp_path, "validation")) == 6


def test_the_only_split_can_be_named(tmp_path):
  pictures.tars(tmp_path / "tars")
  built = pictures.make(tmp_path, tmp_path / "tars", split="fall11")
  assert built.splits == {"fall11": 20}


def test_labels_follow_the_given_names_of_classes(tmp_path):
  """Also of classes without images, as published heads have them; the file may
  begin with the mark that some editors write."""
  pictures.tars(tmp_path / "tars", count=9)
  names = tmp_path / "names.txt"
  names.write_text("cat\nyak\nbee\nant\n", encoding="utf-8-sig")
  pictures.make(tmp_path, tmp_path / "tars", class_names=str(names))
  source = sources.open_source("toy", "train", data_dir=str(tmp_path))
  assert source.class_names == ("cat", "yak", "bee", "ant")
  expected = [(pictures.png(i), (3, 2, 0)[i % 3]) for i in range(9)]
  assert sorted(pictures.pairs(tmp_path)) == sorted(expected)


def test_other_files_in_a_tar_are_counted(tmp_path):
  pictures.tars(tmp_path / "tars", count=6)
  files = {"x/0.png": pictures.png(50), "x/README": b"", "._1.png": b"mac"}
  pictures.tar(tmp_path / "tars/dog.tar", files)
  built = pictures.make(tmp_path, tmp_path / "tars")
  assert built.splits == {"train": 7} and built.num_ignored == 2


def test_long_names_and_large_members_are_found(tmp_path):
  pictures.tars(tmp_path / "tars", count=6)
  files = {f"{'d' * 120}/{'é' * 60}.png": pictures.png(50)}
  for format in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
    path = tmp_path / f"tars/dog{format}.tar"
    with tarfile.open(path, "w", format=format) as archive:
      for name, content in files.items():
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
  pictures.make(tmp_path, tmp_path / "tars")
  images = [image for image, _ in pictures.pairs(tmp_path)]
  assert images.count(pictures.png(50)) == 2


def _problem(tmp_path, path):
  """What is said of the tar files beside `path`; it is named."""
  with pytest.raises(UserError) as error:
    pictures.make(tmp_path / "data", path.parent)
  assert str(path) in str(error.value)
  assert not (tmp_path / "data").exists()
  return str(error.value)


@pytest.fixture
def bee(tmp_path):
  """The second of three tar files."""
  return pictures.tars(tmp_path / "tars", count=30) / "bee.tar"


def test_compressed_tars_are_refused(bee, tmp_path):
  bee.write_bytes(gzip.compress(bee.read_bytes()))
  assert "must be whole and not compressed" in _problem(tmp_path, bee)


@pytest.mark.parametrize("size", [700, 1024 * 3])
def test_tars_that_are_cut_off_are_refused(bee, tmp_path, size):
  """In the middle of a member, and between two."""
  bee.write_bytes(bee.read_bytes()[:size])
  message = _problem(tmp_path, bee)
  assert "cannot be read" in message or "cut off" in message


def test_tars_appended_to_each_other_are_refused(bee, tmp_path):
  other = pictures.tar(tmp_path / "x.tar", {"9.png": pictures.png(9)})
  bee.write_bytes(bee.read_bytes() + other.read_bytes())
  assert "continues after its end" in _problem(tmp_path, bee)


def test_tars_of_tars_are_refused(bee, tmp_path):
  inner = bee.read_bytes()
  pictures.tar(bee, {"n01440764.tar": inner})
  assert "holds tar files (n01440764.tar); unpack it" in _problem(tmp_path, bee)


def test_tars_without_images_are_refused(bee, tmp_path):
  pictures.tar(bee, {"README": b""})
  assert "has no image" in _problem(tmp_path, bee)


def test_all_tars_that_cannot_be_used_are_named(bee, tmp_path):
  bee.write_bytes(b"no tar" * 200)
  (bee.parent / "cat.tar").write_bytes(b"")
  message = _problem(tmp_path, bee)
  assert len(message.splitlines()) == 2 and "cat.tar" in message


def test_links_to_tars_elsewhere_are_refused(bee, tmp_path):
  secret = pictures.tar(tmp_path / "secret.tar", {"0.png": pictures.png(0)})
  link = bee.parent / "dog.tar"
  link.symlink_to(secret)
  assert f"dog.tar is a link to {secret}" in _problem(tmp_path, link)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
def test_links_in_a_tar_are_bad_images(bee, tmp_path, kind):
  (tmp_path / "secret.png").write_bytes(pictures.png(99))
  with tarfile.open(bee, "a") as archive:
    member = tarfile.TarInfo("stolen.png")
    member.type = kind
    member.linkname = str(tmp_path / "secret.png")
    archive.addfile(member)
  with pytest.raises(UserError, match="bee/stolen.png .is not a plain file in"):
    pictures.make(tmp_path, bee.parent)


def test_names_in_a_tar_lead_nowhere(bee, tmp_path):
  """Nothing is unpacked: a name is a name."""
  before = set(tmp_path.iterdir())
  name = "../../../tmp/escaped.png"
  with tarfile.open(bee, "a") as archive:
    member = tarfile.TarInfo(name)
    member.size = len(pictures.png(40))
    archive.addfile(member, io.BytesIO(pictures.png(40)))
  built = pictures.make(tmp_path / "data", bee.parent)
  assert built.splits == {"train": 31}
  assert set(tmp_path.iterdir()) - before == {tmp_path / "data"}
  source = sources.open_source("toy", "train", data_dir=str(tmp_path / "data"))
  images = source.read(np.arange(31))["image"].tolist()
  assert images.count(pictures.png(40)) == 1


def test_one_class_is_not_enough(tmp_path):
  pictures.tar(tmp_path / "tars/bee.tar", {"0.png": pictures.png(0)})
  with pytest.raises(UserError, match="has one class, 'bee'"):
    pictures.make(tmp_path, tmp_path / "tars")
