"""Data that lie in a bucket."""

import struct

import numpy as np
import pytest

from vit_jax.data import folder
from vit_jax.data.array_record_files import ArrayRecordFiles
from vit_jax.data.tfrecord_files import TFRecordFiles
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
