import json
import os
import signal
import subprocess
import sys
import time
import uuid

import numpy as np
import pytest
import tensorflow_datasets as tfds
from etils import epath

from tests.data.building import pictures
from vit_jax.data import checksums, order
from vit_jax.data.building import build, job, shards
from vit_jax.data.tfds import dataset_directory
from vit_jax.errors import UserError


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
  return pictures.folder(tmp_path_factory.mktemp("photos"))


@pytest.fixture(scope="module")
def made(photos, tmp_path_factory):
  """An image folder built with 4 shards a split, not to be changed."""
  data_dir = tmp_path_factory.mktemp("data")
  pictures.make(data_dir, photos, num_shards=4)
  return data_dir


def test_every_image_is_there_once_with_its_class_and_bytes(made):
  expected = [(pictures.png(i), i % 3) for i in range(20)]
  assert sorted(pictures.pairs(made)) == sorted(expected)
  assert sorted(pictures.pairs(made, "test")) == sorted(expected[:7])


def test_shards_are_named_as_tfds_names_them_and_of_equal_length(made):
  names = {path.name for path in (made / "toy/1.0.0").iterdir()}
  assert {n for n in names if "array_record" in n} == {
    f"toy-{split}.array_record-0000{i}-of-00004"
    for split in ("train", "test")
    for i in range(4)
  }
  info = tfds.builder_from_directory(made / "toy/1.0.0").info
  assert list(info.splits["train"].shard_lengths) == [5, 5, 5, 5]
  assert list(info.splits["test"].shard_lengths) == [1, 2, 2, 2]


def test_tfds_reads_what_was_made(made):
  builder = tfds.builder_from_directory(made / "toy/1.0.0")
  label = builder.info.features["label"]
  assert builder.info.full_name == "toy/1.0.0"
  assert tuple(label.names) == pictures.CLASSES
  for example in builder.as_data_source(split="train"):
    name, _, number = example["file_name"].decode().partition("/")
    number = int(number.removesuffix(".png"))
    assert label.int2str(example["label"]) == name
    np.testing.assert_array_equal(example["image"], np.full((4, 4, 3), number))


def test_records_are_written_so_that_each_is_read_alone(made):
  from array_record.python import array_record_module

  path = next((made / "toy/1.0.0").glob("toy-train*"))
  options = array_record_module.ArrayRecordReader(
    str(path)
  ).writer_options_string()
  assert "group_size:1" in options and "uncompressed" in options


def test_records_lie_in_a_permuted_order(tmp_path):
  """So that neighbours, as in a block, are not of one class."""
  pictures.tars(tmp_path / "tars", count=60)
  pictures.make(tmp_path / "data", tmp_path / "tars", num_shards=5)
  labels = [label for _, label in pictures.pairs(tmp_path / "data")]
  places = order.permute(np.arange(60), 60, seed=0, epoch=0)
  assert labels == [place // 20 for place in places.tolist()]
  assert len(set(labels[:12])) == 3


@pytest.mark.slow
def test_bytes_do_not_depend_on_the_number_of_workers(made, photos, tmp_path):
  pictures.make(tmp_path, photos, num_shards=4, num_workers=3)
  assert pictures.contents(tmp_path / "toy/1.0.0") == pictures.contents(
    made / "toy/1.0.0"
  )


@pytest.mark.parametrize(
  ("num_examples", "num_shards"),
  [(1, 1), (2048, 1), (2049, 2), (10**6, 489), (10**9, 2048)],
)
def test_number_of_shards_follows_that_of_examples(num_examples, num_shards):
  assert build.default_num_shards(num_examples) == num_shards


def test_no_shard_is_empty_where_more_are_asked_for(tmp_path):
  photos = pictures.folder(tmp_path / "photos", train=3)
  built = pictures.make(tmp_path, photos, num_shards=8)
  assert len(list(built.directory.glob("*-of-00003"))) == 3


def test_what_is_there_is_not_made_again(photos, tmp_path):
  first = pictures.make(tmp_path, photos, num_shards=2)
  before = _times(first.directory)
  again = pictures.make(tmp_path, photos, num_shards=2)
  assert again.was_there and not first.was_there
  assert again.splits == first.splits == {"train": 20, "test": 7}
  assert _times(again.directory) == before


def _times(directory):
  """File -> when it was written."""
  return {p: p.stat().mtime for p in directory.iterdir()}


def test_what_is_there_is_not_written_over_by_something_else(
  photos, made, tmp_path
):
  other = pictures.folder(tmp_path / "other", train=9)
  with pytest.raises(UserError, match="different: input, num examples.* toy:"):
    pictures.make(made, other, num_shards=4)
  built = pictures.make(tmp_path / "data", other)
  again = pictures.make(tmp_path / "data", other, name="toy:1.0.1")
  assert again.directory == built.directory.with_name("1.0.1")


def test_a_dataset_of_other_origin_is_not_taken_for_ours(photos, tmp_path):
  (tmp_path / "toy/1.0.0").mkdir(parents=True)
  with pytest.raises(UserError, match="holds something else"):
    pictures.make(tmp_path, photos)


def test_shards_that_were_removed_are_made_again(photos, made, tmp_path):
  """What to do about those that --check finds damaged."""
  built = pictures.make(tmp_path, photos, num_shards=4)
  (built.directory / "toy-train.array_record-00002-of-00004").unlink()
  (built.directory / "toy-test.array_record-00000-of-00004").unlink()
  assert pictures.make(tmp_path, photos, num_shards=4).was_there
  assert pictures.contents(built.directory) == pictures.contents(
    made / "toy/1.0.0"
  )


def test_shards_of_images_that_have_changed_are_not_made_again(tmp_path):
  photos = pictures.folder(tmp_path / "photos", train=6)
  built = pictures.make(tmp_path, photos)
  (photos / "train/ant/0.png").write_bytes(pictures.png(200))
  lost = built.directory / "toy-train.array_record-00000-of-00001"
  lost.unlink()
  with pytest.raises(UserError, match="not those it was made of"):
    pictures.make(tmp_path, photos)
  assert not lost.exists()


class Killed(Exception):
  pass


def _killed_after(count, data_dir, photos, **options):
  """A preparation of 4 + 4 shards that dies when it has written `count`."""

  def show(what, done, total):
    whole = len(list(data_dir.rglob("*.array_record-?????-of-?????")))
    if whole >= count:
      raise Killed

  with pytest.raises(Killed):
    pictures.make(data_dir, photos, num_shards=4, show=show, **options)


def test_a_part_is_no_dataset_and_the_rest_makes_it_one(photos, made, tmp_path):
  _killed_after(3, tmp_path, photos)
  name = dataset_directory.DatasetName("toy")
  assert dataset_directory.find(name, epath.Path(tmp_path)) is None
  built = pictures.make(tmp_path, photos, num_shards=4)
  assert pictures.contents(built.directory) == pictures.contents(
    made / "toy/1.0.0"
  )
  assert [p.name for p in (tmp_path / "toy").iterdir()] == ["1.0.0"]


def test_half_written_shards_never_count(photos, made, tmp_path):
  _killed_after(3, tmp_path, photos)
  dataset = tmp_path / "toy/1.0.0.partial/dataset"
  first, second, *_ = sorted(dataset.iterdir())
  os.truncate(first, 100)
  done = tmp_path / f"toy/1.0.0.partial/done/{second.name}.json"
  done.write_text(done.read_text()[:20])
  (dataset / ".toy-train.array_record-00003-of-00004.77.partial").touch()
  built = pictures.make(tmp_path, photos, num_shards=4)
  assert pictures.contents(built.directory) == pictures.contents(
    made / "toy/1.0.0"
  )


def test_another_plan_does_not_go_on_with_a_part(photos, tmp_path):
  _killed_after(3, tmp_path, photos)
  with pytest.raises(UserError, match="part of something else.*num shards"):
    pictures.make(tmp_path, photos, num_shards=5)


def _lines(root):
  pictures.folder(root, train=20)
  values = [
    {"path": f"train/{pictures.CLASSES[i % 3]}/{i}.png", "label": i % 3}
    for i in range(20)
  ]
  return pictures.lines(root / "lists/train.jsonl", *values).parent


def _webdataset(root):
  files = {}
  for i in range(20):
    files |= {f"{i}.png": pictures.png(i), f"{i}.cls": str(i % 3).encode()}
  return f"webdataset:{pictures.tar(root / 'a.tar', files)}"


@pytest.mark.parametrize(
  "form", [pictures.folder, pictures.tars, _lines, _webdataset]
)
def test_another_place_of_the_same_names_does_not_go_on_with_a_part(
  form, tmp_path
):
  """Else shards of both would be one dataset."""
  data_dir = tmp_path / "data"
  inputs = {name: form(tmp_path / name) for name in ("mine", "yours")}
  roots = {
    name: {"image_root": str(tmp_path / name)} if form is _lines else {}
    for name in inputs
  }
  _killed_after(3, data_dir, inputs["mine"], **roots["mine"])
  partial = data_dir / "toy/1.0.0.partial"
  before = sorted(partial.rglob("*"))
  with pytest.raises(UserError) as error:
    pictures.make(data_dir, inputs["yours"], num_shards=4, **roots["yours"])
  assert str(error.value).startswith(f"{partial} holds a part of what is made")
  assert f"{tmp_path}/mine" in str(error.value)
  assert f"not of {tmp_path}/yours" in str(error.value)
  assert "another name, or remove that directory" in str(error.value)
  assert sorted(partial.rglob("*")) == before
  built = pictures.make(data_dir, inputs["mine"], num_shards=4, **roots["mine"])
  assert built.splits["train"] == 20 and not built.was_there


def test_the_same_place_by_another_path_goes_on(photos, tmp_path, monkeypatch):
  _killed_after(3, tmp_path / "data", photos)
  (tmp_path / "link").symlink_to(photos)
  monkeypatch.chdir(tmp_path)
  built = pictures.make(tmp_path / "data", "link", num_shards=4)
  assert built.splits == {"train": 20, "test": 7}


def test_two_preparations_at_once_are_refused(photos, tmp_path):
  def show(what, done, total):
    with pytest.raises(UserError, match="Another preparation is using"):
      pictures.make(tmp_path, photos)

  assert not pictures.make(tmp_path, photos, show=show).was_there


def test_a_kill_between_the_move_and_the_clearing_up_is_mended(
  photos, tmp_path
):
  built = pictures.make(tmp_path, photos)
  (tmp_path / "toy/1.0.0.partial/done").mkdir(parents=True)
  assert pictures.make(tmp_path, photos).was_there
  assert list((tmp_path / "toy").iterdir()) == [built.directory]


def test_one_that_ended_while_another_began_is_not_made_again(
  photos, tmp_path, monkeypatch
):
  real = job._alone

  def late(partial):
    monkeypatch.setattr(job, "_alone", real)
    assert not pictures.make(tmp_path, photos).was_there
    (partial / "dataset").mkdir(parents=True)
    return real(partial)

  monkeypatch.setattr(job, "_alone", late)
  built = pictures.make(tmp_path, photos)
  assert built.was_there
  assert list((tmp_path / "toy").iterdir()) == [built.directory]


@pytest.mark.slow
def test_a_killed_command_goes_on_and_gives_the_same_bytes(tmp_path):
  photos = pictures.folder(tmp_path / "photos", train=250)
  command = [sys.executable, "-m", "vit_jax.prepare", "toy", "--shards=50"]
  command += [f"--from={photos}", "--workers=2"]

  def run(data_dir, **options):
    return subprocess.Popen([*command, f"--data_dir={data_dir}"], **options)

  first = run(tmp_path / "a", stderr=subprocess.DEVNULL)
  done = tmp_path / "a/toy/1.0.0.partial/done"
  deadline = time.monotonic() + 120
  while len(list(done.glob("*"))) < 5 and time.monotonic() < deadline:
    time.sleep(0.01)
  first.send_signal(signal.SIGKILL)
  first.wait()
  assert not (tmp_path / "a/toy/1.0.0").exists()
  assert run(tmp_path / "a", stdout=subprocess.DEVNULL).wait() == 0
  assert run(tmp_path / "b", stdout=subprocess.DEVNULL).wait() == 0
  assert pictures.contents(tmp_path / "a/toy/1.0.0") == pictures.contents(
    tmp_path / "b/toy/1.0.0"
  )


@pytest.fixture
def damaged(tmp_path):
  """An image folder with three files of 20 that cannot be used."""
  photos = pictures.folder(tmp_path / "photos", train=20)
  (photos / "train/ant/3.png").write_bytes(b"")
  (photos / "train/bee/4.png").write_bytes(pictures.png(4)[:50])
  secret = tmp_path / "secret.png"
  secret.write_bytes(pictures.png(99))
  return photos


_PROBLEMS = {"ant/3.png": "empty file", "bee/4.png": "damaged"}


def _listed(path):
  found = [json.loads(line) for line in path.read_text().splitlines()]
  assert {line["split"] for line in found} == {"train"}
  return {line["name"]: line["problem"] for line in found}


def test_bad_images_are_all_named_and_stop_the_preparation(damaged, tmp_path):
  with pytest.raises(UserError) as error:
    pictures.make(tmp_path, damaged, num_shards=5)
  for name, problem in _PROBLEMS.items():
    assert f"train {name} ({problem})" in str(error.value)
  partial = tmp_path / "toy/1.0.0.partial"
  assert _listed(partial / "unusable.jsonl") == _PROBLEMS
  assert not (tmp_path / "toy/1.0.0").exists()


def test_mended_images_are_taken_in(damaged, tmp_path):
  with pytest.raises(UserError):
    pictures.make(tmp_path, damaged, num_shards=5)
  for number in (3, 4):
    name = pictures.CLASSES[number % 3]
    path = damaged / "train" / name / f"{number}.png"
    path.write_bytes(pictures.png(number))
  built = pictures.make(tmp_path, damaged, num_shards=5)
  assert built.splits == {"train": 20} and built.num_unusable == 0
  assert not (built.directory / "unusable.jsonl").exists()


def test_bad_images_are_left_out_when_asked_for(damaged, tmp_path):
  with pytest.raises(UserError):
    pictures.make(tmp_path, damaged, num_shards=5)
  built = pictures.make(tmp_path, damaged, num_shards=5, skip_unusable=True)
  assert built.splits == {"train": 18} and built.num_unusable == 2
  assert _listed(built.directory / "unusable.jsonl") == _PROBLEMS
  assert len(pictures.pairs(tmp_path)) == 18
  alone = pictures.make(
    tmp_path / "b", damaged, num_shards=5, skip_unusable=True
  )
  assert pictures.contents(built.directory) == pictures.contents(
    alone.directory
  )


def test_a_split_without_any_good_image_is_an_error(tmp_path):
  photos = pictures.folder(tmp_path / "photos", train=6, test=3)
  for path in (photos / "test").rglob("*.png"):
    path.write_bytes(b"no image")
  with pytest.raises(UserError, match="'test' has no image that can be used"):
    pictures.make(tmp_path, photos, skip_unusable=True)


def test_links_made_after_the_listing_lead_nowhere_else(tmp_path):
  photos = pictures.folder(tmp_path / "photos", train=20)
  secret = tmp_path / "secret.png"
  secret.write_bytes(pictures.png(99))

  inputs_read = build.inputs.read

  def read(*arguments, **options):
    found = inputs_read(*arguments, **options)
    (photos / "train/ant/3.png").unlink()
    (photos / "train/ant/3.png").symlink_to(secret)
    return found

  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(build.inputs, "read", read)
    with pytest.raises(UserError, match="ant/3.png .leads to .*outside"):
      pictures.make(tmp_path, photos)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_an_os_error(tmp_path, monkeypatch):
  path, done_path = str(tmp_path / "shard"), str(tmp_path / "done.json")
  number = uuid.UUID(int=0)
  monkeypatch.setattr(uuid, "uuid4", lambda: number)
  os.symlink("/dev/full", tmp_path / f".shard.{number.hex[:8]}.partial")
  with pytest.raises(OSError, match="No space left"):
    shards.write(path, (), 1, done_path)
  assert not os.path.exists(path) and not os.path.exists(done_path)


def test_a_directory_that_cannot_be_written_is_a_sentence(photos, tmp_path):
  (tmp_path / "data").write_text("a file")
  with pytest.raises(UserError, match="cannot be written .*same command again"):
    pictures.make(tmp_path / "data", photos)


@pytest.mark.parametrize(
  ("name", "message"),
  [("toy/config", "no configurations; write 'toy'")],
)
def test_names_with_configurations_are_refused(photos, tmp_path, name, message):
  with pytest.raises(UserError, match=message):
    pictures.make(tmp_path, photos, name=name)


def test_buckets_are_refused_with_a_sentence(photos):
  with pytest.raises(UserError, match="bucket, where ArrayRecord"):
    build.build(
      "toy", "gs://bucket/data", str(photos), num_workers=1, show=print
    )


def test_checksums_are_those_of_the_shards(made):
  directory = epath.Path(made / "toy/1.0.0")
  files = checksums.read(directory)
  assert len(files) == 8
  for name, checksum in files.items():
    assert checksum.size == os.path.getsize(directory / name)
    assert checksums.of_file(directory / name) == checksum
