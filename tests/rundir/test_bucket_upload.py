"""Records on their way to a bucket."""

import logging
import time

import pytest
from etils import epath

from vit_jax import records
from vit_jax.rundir.bucket_upload import BucketUpload

SELDOM = 1000.0


def wait_until(condition):
  deadline = time.monotonic() + 100
  while not condition():
    assert time.monotonic() < deadline
    time.sleep(0.01)


def test_a_directory_is_written_to_itself(tmp_path):
  upload = BucketUpload(epath.Path(tmp_path))
  assert upload.path == tmp_path
  upload.upload()
  upload.close()
  assert not any(tmp_path.iterdir())


def test_what_is_written_is_in_the_bucket_after_a_call(bucket):
  upload = BucketUpload(bucket, every_seconds=SELDOM)
  (upload.path / "a").mkdir()
  (upload.path / "a" / "b").write_text("1")
  upload.upload()
  assert (bucket / "a" / "b").read_text() == "1"
  upload.close()


def test_it_is_there_before_long_without_one(bucket):
  upload = BucketUpload(bucket, every_seconds=0.1)
  (upload.path / "a").write_text("1")
  wait_until((bucket / "a").exists)
  upload.close()


def test_a_run_goes_on_from_the_files_of_the_one_before(bucket):
  (bucket / "metrics.jsonl").write_text('{"step": 1}\n{"step": 2}\n')
  upload = BucketUpload(
    bucket, fetch=["metrics.jsonl", "none"], every_seconds=SELDOM
  )
  path = upload.path / "metrics.jsonl"
  file = records.MetricsFile(path, last_step=1)
  file.write(2, {"x": 5})
  file.close()
  upload.close()
  found = records.read_lines(bucket / "metrics.jsonl")
  assert found == [{"step": 1}, {"step": 2, "x": 5}]


def test_what_is_abandoned_stays_here(bucket):
  upload = BucketUpload(bucket, every_seconds=SELDOM)
  (upload.path / "a").write_text("1")
  upload.abandon()
  upload.close()
  assert not (bucket / "a").exists()
  assert (upload.path / "a").read_text() == "1"


def test_only_what_is_new_is_copied(bucket, storage):
  upload = BucketUpload(bucket, every_seconds=SELDOM)
  (upload.path / "a").write_text("1")
  (upload.path / "b").write_text("1")
  upload.upload()
  before = storage.counts.copy()
  with (upload.path / "b").open("a") as file:
    file.write("2")
  upload.upload()
  written = [name for kind, name in storage.counts - before if kind == "write"]
  assert len(written) == 1 and written[0].endswith("/b")
  upload.close()


def test_lines_come_after_the_files_they_tell_of(bucket, storage):
  upload = BucketUpload(bucket, every_seconds=SELDOM)
  for name in ("summary.json", "metrics.jsonl", "evaluations", "z"):
    (upload.path / name).write_text("1")
  upload.close()
  order = sorted(
    bucket.iterdir(), key=lambda path: storage.objects[at(path)].generation
  )
  names = [path.name for path in order]
  assert names == ["evaluations", "z", "metrics.jsonl", "summary.json"]


def at(path):
  return "/".join(path.parts[3:])


def test_what_has_no_name_of_its_own_yet_stays(bucket):
  upload = BucketUpload(bucket, every_seconds=SELDOM)
  (upload.path / "5.tmp").mkdir()
  (upload.path / "5.tmp" / "a").write_text("1")
  (upload.path / ".b.12.partial").write_text("1")
  (upload.path / "c").write_text("1")
  upload.upload()
  assert [path.name for path in bucket.iterdir()] == ["c"]
  upload.close()


def test_a_failure_is_told_once_and_mended(bucket, storage, caplog):
  caplog.set_level(logging.WARNING)
  upload = BucketUpload(bucket, every_seconds=0.1)
  storage.refused = lambda kind, name: kind == "write"
  (upload.path / "a").write_text("1")
  before = sum(storage.counts.values())
  wait_until(lambda: sum(storage.counts.values()) >= before + 3)
  assert caplog.text.count("ALARM") == 1
  assert f"{bucket} cannot be written (Not today.)" in caplog.text
  storage.refused = lambda kind, name: False
  wait_until((bucket / "a").exists)
  wait_until(lambda: "whole again" in caplog.text)
  upload.close()


def test_nothing_is_left_here_unless_it_could_not_be_copied(
  bucket, storage, tmp_path
):
  upload = BucketUpload(bucket, every_seconds=SELDOM)
  (upload.path / "a").write_text("1")
  upload.close()
  assert not any((tmp_path / "here").iterdir())
  upload = BucketUpload(bucket, every_seconds=SELDOM)
  (upload.path / "a").write_text("2")
  storage.refused = lambda kind, name: kind == "write"
  with pytest.raises(OSError, match="Not today"):
    upload.close()
  assert (upload.path / "a").read_text() == "2"
