import io
import json

import numpy as np
import pytest
import tensorflow_datasets as tfds
from PIL import Image

from vit_jax.data import sources
from vit_jax.errors import UserError

FORMATS = ("array_record", "tfrecord")
_NUM_TRAIN, _NUM_TEST, _NUM_CLASSES = 23, 7, 5


def _png(number):
  file = io.BytesIO()
  pixels = np.full((4, 4, 3), number, np.uint8)
  Image.fromarray(pixels).save(file, "PNG")
  return file.getvalue()


def _example(number):
  return {
    "id": number,
    "image": _png(number),
    "label": number % _NUM_CLASSES,
    "labels": [number % _NUM_CLASSES, 4, 4][: 1 + number % 3],
    "pair": [0, 1],
    "objects": [{"label": 1 + number % 2}],
    "unknown": -1,
  }


def _prepare(data_dir, file_format, name="toy", version="1.2.0"):
  label = tfds.features.ClassLabel(names=list("abcde"))
  counts = {"train": _NUM_TRAIN, "test": _NUM_TEST}
  tfds.disable_progress_bar()
  builder = tfds.dataset_builders.AdhocBuilder(
    name=name,
    version=version,
    data_dir=data_dir,
    file_format=file_format,
    features=tfds.features.FeaturesDict(
      {
        "id": np.int64,
        "image": tfds.features.Image(shape=(4, 4, 3), encoding_format="png"),
        "label": label,
        "labels": tfds.features.Sequence(label),
        "pair": tfds.features.Sequence(label, length=2),
        "objects": tfds.features.Sequence({"label": label}),
        "unknown": label,
      }
    ),
    split_datasets={
      split: [(i, _example(i)) for i in range(count)]
      for split, count in counts.items()
    },
    disable_shuffling=True,
  )
  config = tfds.download.DownloadConfig(num_shards=4)
  builder.download_and_prepare(file_format=file_format, download_config=config)


@pytest.fixture(scope="module", params=FORMATS)
def data_dir(request, tmp_path_factory):
  path = tmp_path_factory.mktemp(request.param)
  _prepare(path, request.param)
  return path


def _open(data_dir, split="train", name="toy", **keys):
  return sources.open_source(name, split, data_dir=str(data_dir), **keys)


def test_records_are_read_by_number(data_dir):
  source = _open(data_dir)
  assert source.num_examples == _NUM_TRAIN
  assert source.num_classes == _NUM_CLASSES
  assert source.class_names == tuple("abcde")
  assert source.max_labels == 1 and source.image_shape is None
  ids = np.random.default_rng(0).integers(0, _NUM_TRAIN, 100)
  batch = source.read(ids)
  assert batch["image"].dtype == object and batch["label"].dtype == np.int32
  assert batch["image"].tolist() == [_png(i) for i in ids]
  np.testing.assert_array_equal(batch["label"], ids % _NUM_CLASSES)


def test_split_strings_cut_and_join_splits(data_dir):
  source = _open(data_dir, "test[5:]+train[:50%]+test[:1]")
  expected = [5, 6, *range(12), 0]
  batch = source.read(np.arange(source.num_examples))
  assert batch["image"].tolist() == [_png(i) for i in expected]


def test_records_are_those_that_tfds_reads(tmp_path):
  _prepare(tmp_path, "array_record")
  builder = tfds.core.read_only_builder.builder_from_directory(
    tmp_path / "toy/1.2.0"
  )
  split = "train[10%:-20%]"
  theirs = [example["label"] for example in builder.as_data_source(split=split)]
  ours = _open(tmp_path, split)
  np.testing.assert_array_equal(
    ours.read(np.arange(ours.num_examples))["label"], theirs
  )


def test_threads_may_read_at_once(data_dir):
  from concurrent import futures

  source = _open(data_dir)
  ids = np.random.default_rng(1).integers(0, _NUM_TRAIN, (40, 16))
  with futures.ThreadPoolExecutor(8) as pool:
    for row, batch in zip(ids, pool.map(source.read, ids), strict=True):
      assert batch["image"].tolist() == [_png(i) for i in row]


@pytest.mark.parametrize(
  "key, width, expected",
  [
    ("labels", 32, {0: [0], 4: [4], 7: [2, 4]}),
    ("pair", 2, {0: [0, 1], 7: [0, 1]}),
    ("objects/label", 32, {0: [1], 1: [2]}),
  ],
)
def test_lists_of_labels_are_sets_padded_with_minus_one(
  data_dir, key, width, expected
):
  source = _open(data_dir, label_key=key)
  assert source.max_labels == width
  labels = source.read(np.array(list(expected)))["label"]
  assert labels.shape == (len(expected), width)
  for row, wanted in zip(labels, expected.values(), strict=True):
    assert row.tolist() == wanted + [-1] * (width - len(wanted))


def test_label_that_is_no_class_names_the_record(data_dir):
  source = _open(data_dir, "test", label_key="unknown")
  with pytest.raises(UserError) as error:
    source.read(np.array([6]))
  message = str(error.value)
  assert message.startswith("The record 6 of toy/1.2.0 test (record")
  assert "has unknown -1; classes are 0 to 4." in message
  assert "published without labels" in message


def test_missing_feature_names_those_that_are_there(data_dir):
  with pytest.raises(UserError, match="image_key = 'x': .* It has: 'image'"):
    _open(data_dir, image_key="x")
  with pytest.raises(UserError, match="has no class label .*'objects/label'"):
    _open(data_dir, label_key="id")


@pytest.fixture(scope="module")
def captioned(tmp_path_factory):
  """Datasets whose captions have the names that are in use."""
  path = tmp_path_factory.mktemp("captioned")
  image = tfds.features.Image(shape=(4, 4, 3), encoding_format="png")
  words = [f"picture {i}" for i in range(4)]
  texts = {
    "one": ({"text": tfds.features.Text()}, lambda i: {"text": words[i]}),
    "lists": (
      {"caption": tfds.features.Sequence(tfds.features.Text())},
      lambda i: {"caption": words[: i + 1]},
    ),
    # As coco_captions has them.
    "nested": (
      {"captions": tfds.features.Sequence({"id": np.int64, "text": np.str_})},
      lambda i: {
        "captions": [{"id": k, "text": words[k]} for k in range(i + 1)]
      },
    ),
    "labelled": (
      {
        "label": tfds.features.ClassLabel(num_classes=4),
        "story": tfds.features.Text(),
      },
      lambda i: {"label": i, "story": words[i]},
    ),
    "bad": (
      {"text": tfds.features.Text()},
      lambda i: {"text": [b"good", b"", b"caf\xe9", b"good"][i]},
    ),
  }
  tfds.disable_progress_bar()
  for name, (features, example) in texts.items():
    tfds.dataset_builders.AdhocBuilder(
      name=name,
      version="1.0.0",
      data_dir=path,
      file_format="array_record",
      features=tfds.features.FeaturesDict({"image": image, **features}),
      split_datasets={
        "train": [(i, {"image": _png(i), **example(i)}) for i in range(4)]
      },
      disable_shuffling=True,
    ).download_and_prepare(file_format="array_record")
  return path


@pytest.mark.parametrize(
  ("name", "expected"),
  [
    ("one", [(f"picture {i}",) for i in range(4)]),
    ("lists", [tuple(f"picture {k}" for k in range(i + 1)) for i in range(4)]),
    ("nested", [tuple(f"picture {k}" for k in range(i + 1)) for i in range(4)]),
  ],
)
def test_captions_are_found_by_their_name(name, expected, captioned):
  source = _open(captioned, name=name)
  assert source.num_classes is None and source.max_labels == 0
  batch = source.read(np.arange(4))
  assert batch["text"].tolist() == expected
  assert batch["image"].tolist() == [_png(i) for i in range(4)]
  assert batch.keys() == source.features.keys() == {"image", "text"}


def test_a_dataset_may_have_captions_and_labels(captioned):
  source = _open(captioned, name="labelled", text_key="story")
  batch = source.read(np.array([2]))
  assert batch["text"].tolist() == [("picture 2",)]
  assert batch["label"].tolist() == [2]
  assert "text" not in _open(captioned, name="labelled").features


def test_another_text_than_the_datasets_is_a_sentence(captioned):
  with pytest.raises(UserError, match="text_key = 'x': .* no text .* 'story'"):
    _open(captioned, name="labelled", text_key="x")


@pytest.mark.parametrize(
  ("number", "reason"), [(1, "empty caption"), (2, "broken UTF-8")]
)
def test_captions_that_cannot_be_used_name_the_record(
  number, reason, captioned
):
  source = _open(captioned, name="bad")
  assert source.captions(np.array([0, 3])).tolist() == [("good",)] * 2
  says = rf"The record {number} of bad/1.0.0 train .* no caption .*{reason}"
  with pytest.raises(UserError, match=says):
    source.read(np.array([0, number]))
  assert all(source.images_alone(np.array([0, number])))


def test_missing_split_names_those_that_are_there(data_dir):
  with pytest.raises(UserError, match="no split 'dev'. Present: train"):
    _open(data_dir, "dev")


def test_fingerprint_names_dataset_version_split_and_count(data_dir):
  one, two = _open(data_dir), _open(data_dir, "train[:10]")
  assert one.fingerprint.startswith("toy/1.2.0:train:23:")
  assert two.fingerprint.startswith("toy/1.2.0:train[:10]:10:")
  assert one.fingerprint.split(":")[-1] == two.fingerprint.split(":")[-1]


def test_names_lead_to_the_file(data_dir):
  (name,) = _open(data_dir, "train[20:]").names(np.array([2]))
  assert name.startswith("record 22 of toy/1.2.0 train (record ")
  file = name.split("file ")[1].rstrip(")")
  assert (data_dir / "toy/1.2.0" / file).exists()


@pytest.mark.parametrize("file_format", FORMATS)
def test_damaged_or_missing_file_is_named(tmp_path, file_format):
  _prepare(tmp_path, file_format)
  path = max((tmp_path / "toy/1.2.0").glob("*train*00000-of-*"))
  content = path.read_bytes()
  for damaged in (content[: len(content) // 2], b"", None):
    path.unlink(missing_ok=True)
    if damaged is not None:
      path.write_bytes(damaged)
    with pytest.raises(UserError, match=f"{path.name} cannot be read"):
      _open(tmp_path).read(np.arange(_NUM_TRAIN))


@pytest.mark.parametrize("file_format", FORMATS)
def test_overwritten_file_is_an_error(tmp_path, file_format):
  _prepare(tmp_path, file_format)
  source = _open(tmp_path)
  source.read(np.arange(1))
  for path in (tmp_path / "toy/1.2.0").glob(f"*train.{file_format}-*"):
    path.write_bytes(b"\xff" * path.stat().st_size)
  with pytest.raises(UserError, match="toy|damaged"):
    _open(tmp_path).read(np.arange(_NUM_TRAIN))


def test_unreadable_metadata_is_a_sentence(tmp_path):
  _prepare(tmp_path, "array_record")
  (tmp_path / "toy/1.2.0/features.json").write_text("{")
  with pytest.raises(UserError, match=r"toy/1.2.0 cannot be read: .*[^.]\. R"):
    _open(tmp_path)


def test_tfrecord_index_is_kept_beside_the_data(tmp_path, monkeypatch):
  _prepare(tmp_path, "tfrecord")
  first = _open(tmp_path).read(np.arange(_NUM_TRAIN))
  assert len(list(tmp_path.rglob("*.offsets.npy"))) == 1

  def fail(*_):
    raise AssertionError("indexed again")

  monkeypatch.setattr("vit_jax.data.tfds.tfrecord_files._record_offsets", fail)
  second = _open(tmp_path).read(np.arange(_NUM_TRAIN))
  assert first["image"].tolist() == second["image"].tolist()


@pytest.mark.parametrize("damage", ["empty", "cut", "zeros", "other"])
def test_a_damaged_tfrecord_index_is_named_and_made_again(
  tmp_path, damage, caplog
):
  _prepare(tmp_path, "tfrecord")
  first = _open(tmp_path).read(np.arange(_NUM_TRAIN))
  (index,) = tmp_path.rglob("*.offsets.npy")
  whole = index.read_bytes()
  numbers = 8 * _NUM_TRAIN
  index.write_bytes(
    {
      "empty": b"",
      "cut": whole[:-8],
      "zeros": whole[:-numbers] + bytes(numbers),
      "other": b"PK\3\4" + whole,
    }[damage]
  )
  second = _open(tmp_path).read(np.arange(_NUM_TRAIN))
  assert first["image"].tolist() == second["image"].tolist()
  (message,) = caplog.messages
  assert message.startswith(f"Ignoring the index {index} (")
  assert index.read_bytes() == whole


def test_tfrecord_index_goes_to_the_user_cache_if_it_must(
  tmp_path, monkeypatch
):
  _prepare(tmp_path, "tfrecord")
  cache = tmp_path / "cache"
  monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
  _open(tmp_path)
  (beside,) = tmp_path.rglob("*.offsets.npy")
  beside.unlink()
  beside.mkdir()  # No file can be written there now.
  assert _open(tmp_path).num_examples == _NUM_TRAIN
  assert len(list(cache.rglob("*.offsets.npy"))) == 1
  monkeypatch.setattr(
    "vit_jax.data.tfds.tfrecord_files._record_offsets", lambda *_: 1 / 0
  )
  assert _open(tmp_path).num_examples == _NUM_TRAIN


def _shard(data_dir, number):
  (path,) = (data_dir / "toy/1.2.0").glob(f"*train*-{number:05}-of-*")
  return path


def _readable(source):
  """Which of all records can be read one by one."""
  found = []
  for i in range(source.num_examples):
    try:
      source.read(np.array([i]))
      found.append(i)
    except UserError:
      pass
  return found


@pytest.mark.parametrize("cut", [1, 130, 200])
def test_a_shard_may_lack_as_many_records_as_are_put_up_with(tmp_path, cut):
  _prepare(tmp_path, "tfrecord")
  path = _shard(tmp_path, 3)
  content = path.read_bytes()
  path.write_bytes(content[:-cut])
  with pytest.raises(UserError, match=f"{path.name} cannot be read .*cut off"):
    _open(tmp_path)
  source = _open(tmp_path, max_bad_examples=5)
  whole = _readable(source)
  assert 0 < _NUM_TRAIN - len(whole) <= 2 + cut // 100
  assert whole == list(range(len(whole)))
  assert source.read(np.array(whole))["image"].tolist() == [
    _png(i) for i in whole
  ]
  with pytest.raises(UserError, match=f"{path.name} cannot be read"):
    source.read(np.array([_NUM_TRAIN - 1]))
  path.write_bytes(content)
  assert len(_readable(_open(tmp_path))) == _NUM_TRAIN


@pytest.mark.parametrize("file_format", FORMATS)
def test_records_that_are_promised_but_not_there_are_named(
  tmp_path, file_format
):
  _prepare(tmp_path, file_format)
  path = tmp_path / "toy/1.2.0/dataset_info.json"
  info = json.loads(path.read_text())
  (split,) = [s for s in info["splits"] if s["name"] == "train"]
  split["shardLengths"][-1] = str(int(split["shardLengths"][-1]) + 2)
  path.write_text(json.dumps(info))
  with pytest.raises(UserError, match="records instead of"):
    _open(tmp_path).read(np.arange(_NUM_TRAIN))
  source = _open(tmp_path, max_bad_examples=2)
  assert source.num_examples == _NUM_TRAIN + 2
  assert _readable(source) == list(range(_NUM_TRAIN))
  with pytest.raises(UserError, match="cannot be read .it ends"):
    source.read(np.array([_NUM_TRAIN + 1]))
