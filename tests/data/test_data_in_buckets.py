"""Data that lie in a bucket."""

import io
import struct
import tarfile

import numpy as np
import pytest

from tests import rough_server
from tests.buckets import filesystem
from vit_jax import buckets
from vit_jax.data import captions, folder, sources
from vit_jax.data.tfds.array_record_files import ArrayRecordFiles
from vit_jax.data.tfds.tfrecord_files import TFRecordFiles
from vit_jax.data.webdataset import source as webdataset
from vit_jax.errors import UserError


def test_an_image_folder_is_read_like_a_local_one(bucket, tmp_path):
  for root in (bucket, tmp_path):
    for name in ("cat/1.png", "cat/2.png", "dog/3.jpg", "dog/notes.txt"):
      path = root / "train" / name
      if root is tmp_path:
        path.parent.mkdir(parents=True, exist_ok=True)
      path.write_bytes(name.encode())
  ours = folder.scan("train", str(bucket))
  theirs = folder.scan("train", str(tmp_path))
  assert ours.fingerprint == theirs.fingerprint
  assert ours.class_names == ("cat", "dog")
  ids = np.arange(3)
  assert [*ours.read(ids)["image"]] == [*theirs.read(ids)["image"]]


def test_images_without_classes_are_found_at_any_depth(bucket, tmp_path):
  for root in (bucket, tmp_path):
    for name in ("1.png", "deep/er/2.png", "deep/3.jpg"):
      path = root / name
      if root is tmp_path:
        path.parent.mkdir(parents=True, exist_ok=True)
      path.write_bytes(name.encode())
  options = folder.Options(unlabelled=True)
  ours = folder.scan("train", str(bucket), options)
  theirs = folder.scan("train", str(tmp_path), options)
  assert ours.num_examples == 3 and ours.fingerprint == theirs.fingerprint
  ids = np.arange(3)
  assert [*ours.read(ids)["image"]] == [*theirs.read(ids)["image"]]


def test_an_image_that_is_gone_from_a_bucket_is_named(bucket):
  for name in ("cat/1.png", "dog/2.png"):
    (bucket / "train" / name).write_bytes(b"x")
  source = folder.scan("train", str(bucket))
  (bucket / "train" / "dog" / "2.png").unlink()
  with pytest.raises(UserError, match="dog/2.png"):
    source.read(np.arange(2))


def test_records_of_tfrecord_files_are_read_and_indexed_once(bucket, storage):
  wanted = [b"one", b"", b"three" * 50]
  path = bucket / "x-train.tfrecord-00000-of-00001"
  path.write_bytes(
    b"".join(
      struct.pack("<QI", len(record), 0) + record + bytes(4)
      for record in wanted
    )
  )
  files = TFRecordFiles([path], [3])
  assert files.read(0, np.array([2, 0, 1])) == [wanted[2], wanted[0], wanted[1]]
  before = storage.counts.copy()
  again = TFRecordFiles([path], [3])
  opened = [name for kind, name in storage.counts - before if kind == "write"]
  assert not opened
  assert again.read(0, np.array([2])) == [wanted[2]]


def test_array_record_files_are_to_be_mounted_or_copied(bucket):
  with pytest.raises(UserError, match="gcsfuse") as error:
    ArrayRecordFiles([bucket / "x.array_record-00000-of-00001"], [3])
  assert str(bucket) in str(error.value)


def test_pairs_of_a_list_are_read(bucket):
  for i in range(3):
    (bucket / "train" / "images" / f"{i}.png").write_bytes(bytes([i]))
  lines = "".join(
    f'{{"image": "images/{i}.png", "text": "{i}"}}\n' for i in range(3)
  )
  outside = '{"image": "../../x.png", "text": "x"}\n'
  (bucket / "train" / "captions.jsonl").write_text(lines + outside)
  ours = captions.open_source("", "train[:3]", data_dir=str(bucket))
  ids = np.array([2, 0])
  batch = ours.read_or_locate(ids)
  assert batch["image"].tolist() == [b"\x02", b"\x00"]
  assert batch["text"].tolist() == [("2",), ("0",)]
  assert ours.names(ids[:1]) == [f"{bucket}/train/images/2.png"]
  with pytest.raises(UserError, match="x.png is outside of gs://"):
    captions.open_source("", "train", data_dir=str(bucket))


def test_tar_files_are_indexed_once_and_read_by_their_parts(bucket):
  content = io.BytesIO()
  with tarfile.open(fileobj=content, mode="w") as tar:
    for i in range(20):
      for name, data in ((f"{i}.png", bytes([i]) * 9000), (f"{i}.txt", b"hi")):
        member = tarfile.TarInfo(name)
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))
  (bucket / "0.tar").write_bytes(content.getvalue())
  first = webdataset.open_source("0.tar", "train", data_dir=str(bucket))
  (index,) = [path for path in bucket.iterdir() if path.suffix == ".npy"]
  assert index.name.startswith("0.tar.")
  again = webdataset.open_source(f"{bucket}/0.tar", "train", data_dir=None)
  assert again.fingerprint == first.fingerprint
  batch = again.read(np.array([19, 3]))
  assert batch["image"].tolist() == [bytes([19]) * 9000, bytes([3]) * 9000]
  assert batch["text"].tolist() == [("hi",), ("hi",)]
  starred = webdataset.open_source("?.tar", "train", data_dir=str(bucket))
  assert starred.fingerprint == first.fingerprint
  with pytest.raises(UserError, match="1 of 1 tar files are missing: gs://"):
    webdataset.open_source("1.tar", "train", data_dir=str(bucket))


@pytest.mark.parametrize(
  ("dataset", "data_dir"),
  [
    ("folder", "gs://silent-a/photos"),
    ("cifar10", "gs://silent-b/tfds"),
    ("captions", "gs://silent-c/photos"),
    ("webdataset:{0..9}.tar", "gs://silent-d/shards"),
    ("webdataset:gs://silent-e/{0..9}.tar", None),
    ("webdataset:gs://silent-f/*.tar", None),
    ("csv:gs://silent-g/labels.csv", None),
  ],
)
def test_a_storage_that_says_nothing_is_given_up_soon(
  dataset, data_dir, bucket, monkeypatch
):
  monkeypatch.setattr(buckets, "FIRST_ANSWER_SECONDS", 0.2)
  with rough_server.RoughServer({}) as silent:
    silent.silent = True
    monkeypatch.setattr(filesystem.StandIn, "url", silent.url)
    with pytest.raises(UserError, match=r"gs://silent-\w cannot be reached"):
      sources.open_source(dataset, "train", data_dir=data_dir)
    assert len(silent.requests) == 1


def test_data_that_need_no_files_ask_no_bucket():
  options = {"data_dir": "gs://nowhere/photos"}
  assert sources.open_source("generated", "train", **options).num_examples


@pytest.mark.parametrize("pattern", ["*.tar", "{0..1}.tar"])
def test_what_may_not_be_read_is_not_called_missing(bucket, storage, pattern):
  (bucket / "0.tar").write_bytes(b"x")
  storage.refused = lambda kind, name: 403 * (kind in ("read", "list"))
  with pytest.raises(UserError, match=r"cannot be (listed|read) \(Not today"):
    sources.open_source(
      f"webdataset:{bucket}/{pattern}", "train", data_dir=None
    )
