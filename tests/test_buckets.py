"""Paths in buckets."""

import importlib
import os
import sys
import threading

import pytest

from tests import rough_server
from tests.buckets import filesystem
from vit_jax import buckets, records
from vit_jax.errors import UserError


def names(storage, at):
  prefix = "/".join(at.parts[3:]) + "/"
  return [name.removeprefix(prefix) for name in storage.names(prefix)]


def test_what_is_in_a_bucket_is_told_by_the_path():
  assert buckets.is_bucket("gs://bucket/run")
  assert not buckets.is_bucket("/gs/bucket/run")


def test_a_bucket_is_no_place_of_this_directory(bucket, tmp_path):
  assert buckets.absolute(bucket) == bucket
  assert buckets.absolute(tmp_path / "a" / "..") == tmp_path


def test_without_the_package_for_it_a_path_is_refused_in_a_sentence(
  monkeypatch,
):
  registry = importlib.import_module("fsspec.registry")
  monkeypatch.delitem(registry._registry, "gcs", raising=False)
  monkeypatch.setitem(sys.modules, "gcsfs", None)
  with pytest.raises(UserError, match="pip install gcsfs") as error:
    buckets.check("gs://bucket/run")
  assert "gs://bucket/run" in str(error.value)
  buckets.check("runs/first")


def test_a_storage_that_says_nothing_is_named_in_a_sentence(
  bucket, monkeypatch
):
  monkeypatch.setattr(buckets, "FIRST_ANSWER_SECONDS", 0.2)
  with rough_server.RoughServer({}) as silent:
    silent.silent = True
    monkeypatch.setattr(filesystem.StandIn, "url", silent.url)
    with pytest.raises(UserError, match="gs://silent cannot be reached"):
      buckets.check_workdir("gs://silent/run")
    assert len(silent.requests) == 1  # Nothing else is tried.


@pytest.mark.parametrize("place", ["silent", "nowhere"])
def test_gcsfs_is_given_little_time_for_a_first_answer(
  monkeypatch, gcsfs_storage, place
):
  monkeypatch.setattr(buckets, "FIRST_ANSWER_SECONDS", 0.5)
  with rough_server.RoughServer({}) as silent:
    silent.silent = True
    url = silent.url if place == "silent" else "http://name.invalid"
    gcsfs_storage(url)
    with pytest.raises(UserError, match=f"gs://{place} cannot be reached"):
      buckets.check(f"gs://{place}/run")


def test_an_outage_is_waited_for_if_asked_to(bucket, monkeypatch, caplog):
  monkeypatch.setattr(buckets, "FIRST_ANSWER_SECONDS", 0.2)
  with rough_server.RoughServer({}) as storage:
    monkeypatch.setattr(filesystem.StandIn, "url", storage.url)
    storage.silent = True
    with pytest.raises(UserError, match="gs://lost cannot be reached"):
      buckets.check_workdir("gs://lost/run", outage_seconds=1)
    assert len(storage.requests) > 1
    caplog.clear()
    heal = threading.Timer(1, setattr, [storage, "silent", False])
    heal.start()
    buckets.check_workdir("gs://late/run", outage_seconds=60)
  assert caplog.messages == [
    "gs://late does not answer; asking again for up to 60 seconds."
  ]


def test_gcsfs_waits_while_the_service_is_unavailable(
  monkeypatch, gcsfs_storage
):
  monkeypatch.setattr(buckets, "FIRST_ANSWER_SECONDS", 0.5)
  with rough_server.RoughServer({}) as storage:
    storage.status = 503
    gcsfs_storage(storage.url)
    heal = threading.Timer(2, setattr, [storage, "status", 403])
    heal.start()
    buckets.check_workdir("gs://unavailable/run", outage_seconds=60)
  assert not heal.is_alive()


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_storage_that_refuses_what_has_no_credentials_has_answered(
  bucket, monkeypatch, status
):
  with rough_server.RoughServer({}) as refusing:
    refusing.status = status
    monkeypatch.setattr(filesystem.StandIn, "url", refusing.url)
    for _ in range(2):
      buckets.check(f"gs://refused-{status}/run")
    assert len(refusing.requests) == 1  # It is asked once.


def test_a_workdir_is_on_a_file_system_or_of_one_kind_of_bucket(bucket):
  buckets.check_workdir(bucket)
  buckets.check_workdir("runs/first")
  with pytest.raises(UserError, match="s3://bucket/run"):
    buckets.check_workdir("s3://bucket/run")


def test_errors_of_a_buckets_libraries_are_those_of_a_file(bucket, storage):
  storage.refused = lambda kind, name: kind == "write"
  with pytest.raises(OSError) as error, buckets.as_os_error(bucket):
    (bucket / "a").write_text("x")
  assert error.value.strerror == "Not today."
  with pytest.raises(FileNotFoundError) as error, buckets.as_os_error(bucket):
    (bucket / "a").read_text()
  assert error.value.strerror == "No such file or directory"


def test_a_mistake_elsewhere_stays_what_it_is(tmp_path):
  with pytest.raises(KeyError), buckets.as_os_error(tmp_path):
    raise KeyError


def test_a_file_is_replaced_by_one_write(bucket, storage):
  records.write_text(bucket / "a", "one")
  before = storage.counts.copy()
  records.write_text(bucket / "a", "two")
  assert (bucket / "a").read_text() == "two"
  done = [kind for kind, _ in (storage.counts - before).elements()]
  assert done.count("write") == 1 and "delete" not in done


def test_a_file_that_fails_half_way_leaves_the_old_one(
  bucket, storage, tmp_path
):
  records.write_text(bucket / "a", "one")
  with pytest.raises(ZeroDivisionError):
    with records.replacing(bucket / "a") as partial:
      partial.write_text("tw")
      raise ZeroDivisionError
  assert (bucket / "a").read_text() == "one"
  assert names(storage, bucket) == ["a"]
  assert not any((tmp_path / "here").iterdir())


def test_a_directory_is_copied_whole(bucket, storage):
  with buckets.local(bucket / "all") as made:
    (made / "b").mkdir(parents=True)
    (made / "a").write_bytes(b"1")
    (made / "b" / "c").write_bytes(b"2")
  assert names(storage, bucket) == ["all/a", "all/b/c"]
  assert (bucket / "all" / "b" / "c").read_bytes() == b"2"


def test_a_directory_moves_object_by_object(bucket, storage):
  for name in ("a", "b/c", "done"):
    (bucket / "from" / name).write_text(name)
  buckets.move(bucket / "from", bucket / "to", first=["done"])
  assert names(storage, bucket) == ["to/a", "to/b/c", "to/done"]
  assert (bucket / "to" / "b" / "c").read_text() == "b/c"


def test_a_move_that_fails_while_copying_leaves_all(bucket, storage):
  for name in ("a", "b", "done"):
    (bucket / "from" / name).write_text(name)
  storage.refused = lambda kind, name: name.endswith("to/b")
  with pytest.raises(OSError):
    buckets.move(bucket / "from", bucket / "to", first=["done"])
  assert {"from/a", "from/b", "from/done"} <= set(names(storage, bucket))


def test_the_size_of_a_file_needs_no_name_of_its_owner(
  tmp_path, nobody_has_a_name
):
  (tmp_path / "file").write_bytes(bytes(7))
  os.utime(tmp_path / "file", (8, 9))
  assert buckets.status(tmp_path / "file") == (False, 7, 9)
  assert buckets.status(tmp_path).is_directory


def test_a_status_in_a_bucket_tells_an_error_from_an_absence(bucket, storage):
  (bucket / "a" / "b").write_bytes(bytes(7))
  assert buckets.status(bucket / "a").is_directory
  assert buckets.status(bucket / "a" / "b")[:2] == (False, 7)
  with pytest.raises(FileNotFoundError):
    buckets.status(bucket / "c")
  storage.refused = lambda kind, name: kind == "read" and name.endswith("a/b")
  with pytest.raises(OSError, match="Not today"):
    list(buckets.files(bucket))


def test_a_workdir_that_the_locale_cannot_name_is_refused(tmp_path):
  """As Python decodes an ä without UTF-8; Orbax would fail after training."""
  with pytest.raises(UserError, match="letters.*PYTHONUTF8=1"):
    buckets.check_workdir(tmp_path / "\udcc3\udca4")
  buckets.check_workdir(tmp_path / "ä")
