"""Hugging Face datasets in directories: saved, Arrow, Parquet and images."""

import datetime
import logging
import os
import re

import numpy as np
import pytest

from tests.data.test_captions import (
  BATCH,
  host_batches,
  picture,
  take,
)
from tests.data.test_host_batches import assert_equal
from vit_jax.data import order, sources
from vit_jax.errors import UserError

datasets = pytest.importorskip("datasets")
COUNT = 10
NAMES = ["ant", "bee", "cow"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
  """The library reads where its cache is when it is imported."""
  cache = tmp_path_factory.mktemp("datasets")
  monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", cache)
  monkeypatch.setattr(datasets.config, "HF_CACHE_HOME", str(cache))
  return cache


def table(count=COUNT, first=0, **columns):
  """Pictures with classes and captions, in the library's form."""
  numbers = range(first, first + count)
  values = {
    "image": [{"bytes": picture(i), "path": f"{i}.png"} for i in numbers],
    "label": [i % 3 for i in numbers],
    "text": [f"text {i}" for i in numbers],
  }
  features = {
    "image": datasets.Image(),
    "label": datasets.ClassLabel(names=NAMES),
    "text": datasets.Value("string"),
  }
  for name, (feature, value) in columns.items():
    features[name], values[name] = feature, value
  return datasets.Dataset.from_dict(
    values, features=datasets.Features(features)
  )


def saved(path, **options):
  found = datasets.DatasetDict(train=table(), test=table(3, first=COUNT))
  found.save_to_disk(path, **options)


def parquet(path, **options):
  path.mkdir()
  for shard in range(2):
    table(COUNT // 2, first=shard * COUNT // 2).to_parquet(
      path / f"train-{shard:05d}-of-00002.parquet", **options
    )
  table(3, first=COUNT).to_parquet(path / "test-00000-of-00001.parquet")


def arrow(path):
  saved(path, num_shards={"train": 2, "test": 1})
  for file in path.rglob("*.json"):
    file.unlink()
  for file in path.glob("*/*.arrow"):
    file.rename(path / f"{file.parent.name}-{file.name}")


FORMS = {"saved": saved, "parquet": parquet, "arrow": arrow}


def open_(path, split="train", **options):
  return sources.open_source(
    f"datasets:{path}", split, data_dir=None, **options
  )


@pytest.mark.parametrize("form", FORMS)
def test_records_of_any_form_are_read_by_number(form, tmp_path):
  FORMS[form](tmp_path / "d")
  source = open_(tmp_path / "d")
  assert source.num_examples == COUNT
  assert source.features == {
    "image": sources.Image(),
    "label": sources.Label(3, tuple(NAMES)),
    "text": sources.Text(),
  }
  ids = np.array([9, 0, 4, 4, 5])
  batch = source.read(ids)
  assert batch["image"].tolist() == [picture(i) for i in ids]
  assert batch["label"].dtype == np.int32
  assert batch["label"].tolist() == [i % 3 for i in ids]
  assert batch["text"].tolist() == [(f"text {i}",) for i in ids]
  assert source.captions(ids).tolist() == batch["text"].tolist()
  assert source.known_labels().tolist() == [i % 3 for i in range(COUNT)]
  assert source.file_names(ids[:2]) == ["9.png", "0.png"]
  assert source.names(ids[:1]) == [f"record 9 of datasets:{tmp_path}/d train"]


@pytest.mark.parametrize("form", FORMS)
def test_splits_are_those_of_the_library_and_their_parts(form, tmp_path):
  FORMS[form](tmp_path / "d")
  source = open_(tmp_path / "d", "train[90%:]+test[1:]")
  found = source.read(np.arange(source.num_examples))["text"].tolist()
  assert found == [("text 9",), ("text 11",), ("text 12",)]
  says = r"Present: \w+ .\d+ examples.*'\w+\[:80%\]'"
  with pytest.raises(UserError, match=says):
    open_(tmp_path / "d", "validation")


def test_an_empty_split_is_named_and_the_others_open(tmp_path):
  found = datasets.DatasetDict(
    train=table(), validation=table().select([]), test=table(3, first=COUNT)
  )
  found.save_to_disk(tmp_path / "d")
  assert open_(tmp_path / "d").num_examples == COUNT
  assert open_(tmp_path / "d", "test").num_examples == 3
  says = r"Split 'validation' of .*/d has no examples. Present: train"
  with pytest.raises(UserError, match=says):
    open_(tmp_path / "d", "validation")
  table().select([]).save_to_disk(tmp_path / "e")
  with pytest.raises(UserError, match=r"datasets:.*/e has no examples"):
    open_(tmp_path / "e")


def test_all_forms_of_the_same_records_have_one_fingerprint(tmp_path):
  for form, write in FORMS.items():
    write(tmp_path / form)
  found = {open_(tmp_path / form).fingerprint for form in FORMS}
  assert len(found) == 1
  others = [open_(tmp_path / "saved", split) for split in ("test", "train[1:]")]
  assert found.isdisjoint(other.fingerprint for other in others)


@pytest.mark.parametrize("form", FORMS)
def test_changed_content_has_another_fingerprint(form, tmp_path, monkeypatch):
  FORMS[form](tmp_path / "a")
  real = table

  def changed(count=COUNT, first=0):
    found = real(count, first)
    rows = [{**r, "label": 2} if i == 0 else r for i, r in enumerate(found)]
    return datasets.Dataset.from_list(rows, features=found.features)

  monkeypatch.setitem(globals(), "table", changed)
  FORMS[form](tmp_path / "b")
  assert open_(tmp_path / "a").fingerprint != open_(tmp_path / "b").fingerprint


def test_parquet_is_read_in_place_if_blocks_stay_together(
  tmp_path, own_cache, caplog
):
  parquet(tmp_path / "d", batch_size=2)
  caplog.set_level(logging.INFO)
  source = open_(tmp_path / "d", shuffle_block=3)
  assert not list(own_cache.rglob("*.arrow"))
  ids = np.array([9, 0, 4, 4, 5])
  batch = source.read(ids)
  assert batch["image"].tolist() == [picture(i) for i in ids]
  assert batch["label"].tolist() == [i % 3 for i in ids]
  assert batch["text"].tolist() == [(f"text {i}",) for i in ids]
  assert "a copy" not in caplog.text
  open_(tmp_path / "d", shuffle_block=1)
  says = r"with config.train.shuffle_block=3 or more its row groups of 3"
  assert re.search(says, caplog.text)  # The test split's.
  assert re.search(r"a copy in Arrow's form of about \d.* is made", caplog.text)
  caplog.clear()
  open_(tmp_path / "d")
  assert "a copy" not in caplog.text  # It is there.


def test_a_short_row_group_does_not_keep_all_others_in_memory(tmp_path):
  import pyarrow as pa

  size, count = 20_000, 161  # The last row group is of one record.
  images = [bytes([i]) * size for i in range(count)]
  (tmp_path / "d").mkdir()
  rows = {"image": [{"bytes": image, "path": None} for image in images]}
  datasets.Dataset.from_dict(
    rows, features=datasets.Features(image=datasets.Image())
  ).to_parquet(tmp_path / "d/train.parquet", batch_size=2)
  source = open_(tmp_path / "d", shuffle_block=2)
  before = pa.total_allocated_bytes()
  for i in range(count):
    assert source.read(np.array([i]))["image"].tolist() == [images[i]]
  # Two windows of 16 blocks, each of which touches two row groups.
  assert pa.total_allocated_bytes() - before < 1.1 * 2 * 16 * 2 * 2 * size


@pytest.mark.parametrize("file", ["train-00001-of-00002", "test-0"])
@pytest.mark.parametrize("column", ["image", "label", "text"])
def test_parquet_files_of_other_columns_are_named(file, column, tmp_path):
  parquet(tmp_path / "d")
  (tmp_path / "d/test-00000-of-00001.parquet").unlink()
  path = tmp_path / f"d/{file}.parquet"
  first = tmp_path / "d/train-00000-of-00002.parquet"
  rest = table(5).remove_columns(column)
  rest.to_parquet(path)
  says = re.escape(f"{path} has no column {column!r}")
  with pytest.raises(UserError, match=says):
    open_(tmp_path / "d", shuffle_block=5)
  value = {"image": "a.png", "label": 1.5, "text": b"a"}[column]
  rest.add_column(column, [value] * 5).to_parquet(path)
  kind = {"image": "string", "label": "double", "text": "binary"}[column]
  says = rf"column '{column}' of .*{file}.parquet holds {kind}, and that of"
  with pytest.raises(UserError, match=f"{says} {re.escape(str(first))} "):
    open_(tmp_path / "d", shuffle_block=5)


def test_columns_of_other_names_are_guessed_in_one_line(tmp_path, caplog):
  caplog.set_level(logging.INFO)
  renamed = {"image": "img", "label": "fine_label", "text": "caption"}
  table().rename_columns(renamed).save_to_disk(tmp_path / "d")
  source = open_(tmp_path / "d")
  assert source.class_names == tuple(NAMES)
  assert source.read(np.array([4]))["text"].tolist() == [("text 4",)]
  (line,) = [r.message for r in caplog.records if "images in" in r.message]
  assert line == (
    f"datasets:{tmp_path}/d: images in 'img', classes in 'fine_label', captions"
    " in 'caption'; image_key, label_key and text_key name others."
  )


@pytest.mark.parametrize(
  ("keys", "says"),
  [
    (
      {"image_key": "label"},
      "image_key = 'label' holds ClassLabel, no image. .*be: 'image'",
    ),
    ({"image_key": "img"}, "image_key = 'img' is not a column .* be: 'image'"),
    ({"label_key": "when"}, "'when' holds date32, no class label.*'label'"),
    (
      {"label_key": "score"},
      "label_key = 'score' holds float32 such as 0.5, no numbers of classes; ",
    ),
    ({"text_key": "label"}, "text_key = 'label' holds ClassLabel, no text"),
  ],
)
def test_a_column_of_another_type_is_a_sentence(keys, says, tmp_path):
  score = (datasets.Value("float32"), [0.5] * COUNT)
  when = (datasets.Value("date32"), [datetime.date(2020, 1, 1)] * COUNT)
  table(score=score, when=when).save_to_disk(tmp_path / "d")
  with pytest.raises(UserError, match=says):
    open_(tmp_path / "d", **keys)


@pytest.mark.parametrize("kind", ["bool", "float64", "float32"])
def test_classes_may_be_bools_or_whole_floats(kind, tmp_path):
  values = [bool(i % 3) for i in range(COUNT)]
  if kind != "bool":
    values = [float(i % 3) for i in range(COUNT)]
  values[4] = None
  feature = datasets.Value(kind)
  table(label=(feature, values)).save_to_disk(tmp_path / "d")
  with pytest.raises(UserError, match=r"1 of the examples .*4 .* \(no label"):
    open_(tmp_path / "d")
  source = open_(tmp_path / "d", max_bad_examples=1)
  assert source.num_classes == (2 if kind == "bool" else 3)
  expected = [-1 if value is None else int(value) for value in values]
  assert source.known_labels().tolist() == expected


@pytest.mark.parametrize(
  ("kind", "value", "says"),
  [
    ("float64", 0.25, "has no labels: 'label' holds float64 such as 0.25, no"),
    (
      "date32",
      datetime.date(2020, 1, 1),
      "images in 'image', no classes in 'label', which holds date32, captions",
    ),
  ],
)
def test_a_column_that_nobody_named_and_is_no_class_is_said(
  kind, value, says, tmp_path, caplog
):
  caplog.set_level(logging.INFO)
  feature = datasets.Value(kind)
  table(label=(feature, [value] * COUNT)).save_to_disk(tmp_path / "d")
  assert open_(tmp_path / "d").label is None
  assert says in caplog.text


@pytest.mark.parametrize("form", ["saved", "parquet"])
def test_lists_of_one_length_are_sets_of_classes_and_captions(form, tmp_path):
  labels = [[i % 3, 3] for i in range(COUNT)]
  texts = [[f"{i} one", f"{i} two"] for i in range(COUNT)]
  found = table(
    label=(datasets.List(datasets.Value("int64"), length=2), labels),
    text=(datasets.List(datasets.Value("string"), length=2), texts),
  )
  if form == "saved":
    found.save_to_disk(tmp_path / "d")
  else:
    (tmp_path / "d").mkdir()
    found.to_parquet(tmp_path / "d/train.parquet")
  source = open_(tmp_path / "d", shuffle_block=COUNT)
  assert (source.num_classes, source.max_labels) == (4, 2)
  batch = source.read(np.arange(COUNT))
  assert batch["label"].tolist() == labels
  assert batch["text"].tolist() == list(map(tuple, texts))


def test_a_file_is_to_be_named_by_its_directory(tmp_path):
  parquet(tmp_path / "d")
  says = f"is a file; name its directory, {re.escape(str(tmp_path / 'd'))}"
  with pytest.raises(UserError, match=says):
    open_(tmp_path / "d/train-00000-of-00002.parquet")


def test_classes_that_nobody_declares_are_numbers_or_sorted_names(tmp_path):
  numbers = [3, 1] * (COUNT // 2)
  words = ["cow", "ant"] * (COUNT // 2)
  lists = [[1, 3], [], [2]] * 3 + [[0]]
  table(
    number=(datasets.Value("int8"), numbers),
    word=(datasets.Value("string"), words),
    several=(datasets.List(datasets.Value("int64")), lists),
  ).save_to_disk(tmp_path / "d")
  source = open_(tmp_path / "d", label_key="number")
  assert (source.num_classes, source.class_names) == (4, None)
  assert source.known_labels().tolist() == numbers
  source = open_(tmp_path / "d", label_key="word")
  assert source.class_names == ("ant", "cow")
  assert source.known_labels().tolist() == [1, 0] * (COUNT // 2)
  source = open_(tmp_path / "d", label_key="several")
  assert (source.num_classes, source.max_labels) == (4, 2)
  expected = [[1, 3], [-1, -1], [2, -1]] * 3 + [[0, -1]]
  assert source.read(np.arange(COUNT))["label"].tolist() == expected


def test_numbers_to_predict_are_a_column(tmp_path):
  ages = np.linspace(0, 1, COUNT).tolist()
  age = (datasets.Value("float64"), ages)
  table(age=age).save_to_disk(tmp_path / "d")
  source = open_(tmp_path / "d", label_key="age", numbers=True)
  assert source.numbers == ("age",) and source.num_classes is None
  assert source.read(np.arange(COUNT))["label"].tolist() == [[a] for a in ages]


def test_a_record_may_have_several_captions(tmp_path):
  several = [[f"{i} one", f"{i} two"] for i in range(COUNT)]
  feature = datasets.List(datasets.Value("string"))
  table(captions=(feature, several)).remove_columns("text").save_to_disk(
    tmp_path / "d"
  )
  source = open_(tmp_path / "d")
  found = source.captions(np.arange(COUNT)).tolist()
  assert found == list(map(tuple, several))


@pytest.mark.parametrize("form", ["saved", "parquet"])
def test_a_caption_may_lack_where_nobody_reads_captions(form, tmp_path):
  texts = [None if i == 1 else f"text {i}" for i in range(COUNT)]
  found = table(text=(datasets.Value("string"), texts))
  if form == "saved":
    found.save_to_disk(tmp_path / "d")
  else:
    (tmp_path / "d").mkdir()
    found.to_parquet(tmp_path / "d/train.parquet")
  options = {"shuffle_block": COUNT}
  source = open_(tmp_path / "d", captions=False, **options)
  assert list(source.features) == ["image", "label"]
  batch = source.read(np.arange(COUNT))
  assert batch.keys() == {"image", "label"}
  assert batch["image"].tolist() == [picture(i) for i in range(COUNT)]
  for wanted in ({}, {"captions": False, "text_key": "text"}):
    with pytest.raises(UserError, match=r"record 1 .* \(no caption\)"):
      open_(tmp_path / "d", **wanted, **options)
    other = open_(tmp_path / "d", max_bad_examples=1, **wanted, **options)
    assert other.fingerprint == source.fingerprint
    with pytest.raises(UserError, match=r"record 1 .* \(no caption\)"):
      other.read(np.arange(COUNT))
    with pytest.raises(UserError, match="record 1 .* has no caption"):
      other.captions(np.arange(COUNT))
    images = other.images_alone(np.arange(COUNT))
    assert images.tolist() == batch["image"].tolist()


@pytest.mark.parametrize("form", ["saved", "parquet", "parquet in place"])
@pytest.mark.parametrize("is_list", [False, True])
def test_captions_that_cannot_be_used_are_counted_at_once(
  form, is_list, tmp_path
):
  bad = {1: None, 4: "", 6: " \u3000\t"}
  texts = [bad.get(i, f"text {i}") for i in range(COUNT)]
  feature = datasets.Value("string")
  if is_list:
    # One that can be used is enough.
    texts = [[t, t] if i in bad else [t, None] for i, t in enumerate(texts)]
    texts[8], texts[9] = [], None
    feature = datasets.List(feature)
  found = table(text=(feature, texts))
  if form == "saved":
    found.save_to_disk(tmp_path / "d")
  else:
    (tmp_path / "d").mkdir()
    found.to_parquet(tmp_path / "d/train.parquet", batch_size=3)
  options = {"shuffle_block": COUNT} if form == "parquet in place" else {}
  wrong = [1, 4, 6, 8, 9] if is_list else [1, 4, 6]
  says = (
    rf"{len(wrong)} of the examples .* record 1 .*; record 4 .* train \(empty"
  )
  with pytest.raises(UserError, match=says):
    open_(tmp_path / "d", **options, max_bad_examples=len(wrong) - 1)
  source = open_(tmp_path / "d", **options, max_bad_examples=len(wrong))
  assert sorted(source.problems) == wrong
  part = open_(tmp_path / "d", "train[5:7]", **options, max_bad_examples=1)
  assert sorted(part.problems) == [1]
  batches = host_batches(source, max_bad_examples=len(wrong))
  take(batches, 5)
  assert batches.bad_examples(before=20) == wrong


def test_a_text_that_is_not_utf8_is_a_sentence_at_once(tmp_path):
  import pyarrow as pa

  offsets = pa.py_buffer(np.array([0, 2, 4], np.int32).tobytes())
  text = pa.Array.from_buffers(
    pa.string(), 2, [None, offsets, pa.py_buffer(b"ab\xff\xfe")]
  )
  image = pa.array([picture(0), picture(1)])
  (tmp_path / "d").mkdir()
  found = pa.table({"image": image, "text": text})
  with pa.ipc.new_file(tmp_path / "d/train.arrow", found.schema) as file:
    file.write_table(found)
  with pytest.raises(UserError, match="d cannot be read .*UTF8"):
    open_(tmp_path / "d")


def test_a_split_published_without_labels_has_none(tmp_path):
  found = table().remove_columns("label")
  hidden = found.add_column("label", [-1] * COUNT).cast_column(
    "label", datasets.ClassLabel(names=NAMES)
  )
  datasets.DatasetDict(train=table(), test=hidden).save_to_disk(tmp_path / "d")
  assert open_(tmp_path / "d", "test").label is None
  assert open_(tmp_path / "d", "train").num_classes == 3


@pytest.mark.parametrize("form", ["saved", "parquet in place"])
@pytest.mark.parametrize("step", [1, 4])
def test_a_resumed_run_reads_the_same_pairs(form, step, tmp_path):
  options = pairs_only(form, tmp_path / "d")
  source = open_(tmp_path / "d", **options)
  whole = take(host_batches(source), 6)
  again = open_(tmp_path / "d", **options)
  late = take(host_batches(again, first=step * BATCH), 6 - step)
  assert_equal(late, whole[step:])


@pytest.mark.parametrize("form", ["saved", "parquet in place"])
def test_processes_together_read_the_same_pairs(form, tmp_path):
  options = pairs_only(form, tmp_path / "d")
  whole = take(host_batches(open_(tmp_path / "d", **options)), 6)
  parts = [
    take(host_batches(open_(tmp_path / "d", **options), rows=rows), 6)
    for rows in (range(2), range(2, 4))
  ]
  together = [
    {name: np.concatenate([part[name] for part in step]) for name in step[0]}
    for step in zip(*parts, strict=True)
  ]
  assert_equal(together, whole)


def pairs_only(form, path):
  """Writes images and captions; returns what `open_` takes besides."""
  pairs = table().remove_columns("label")
  if form == "saved":
    pairs.save_to_disk(path)
    return {}
  path.mkdir()
  pairs.to_parquet(path / "train.parquet", batch_size=3)
  return {"shuffle_block": 3}


BAD = {
  "no image": {"image": None},
  "no label": {"label": None},
  "label -5": {"label": -5},
}


@pytest.mark.parametrize("reason", BAD)
def test_what_cannot_be_used_is_named_or_replaced(reason, tmp_path):
  good = table()
  features = good.features.copy()
  features["label"] = datasets.Value("int64")
  rows = [{**good[i], "label": i % 3} for i in range(COUNT)]
  rows[2] |= BAD[reason]
  found = datasets.Dataset.from_list(rows, features=features)
  if reason == "label -5":  # The library looks at the largest alone.
    found = found.map(features=good.features.copy())
  found.save_to_disk(tmp_path / "d")
  says = (
    r"1 of the examples cannot be used: record 2 of datasets:.*/d train"
    rf" \({reason}\)\."
  )
  with pytest.raises(UserError, match=says):
    open_(tmp_path / "d")
  source = open_(tmp_path / "d", max_bad_examples=1)
  with pytest.raises(UserError, match=rf"record 2 .*\({reason}\)"):
    source.read(np.array([1, 2]))
  assert source.read(np.array([1, 3]))["label"].tolist() == [1, 0]


def test_an_empty_caption_and_a_damaged_image_are_named(tmp_path):
  found = table().remove_columns("label").to_list()
  found[2]["text"] = " "
  found[5]["image"]["bytes"] = picture(5)[:90]
  features = table().remove_columns("label").features
  datasets.Dataset.from_list(found, features=features).save_to_disk(
    tmp_path / "d"
  )
  with pytest.raises(UserError, match=r"record 2 .* \(empty caption\)"):
    open_(tmp_path / "d")
  source = open_(tmp_path / "d", max_bad_examples=1)
  says = r"record 2 .* has no caption that can be used in 'text' \(empty"
  with pytest.raises(UserError, match=says):
    source.captions(np.array([2]))
  batches = host_batches(source, max_bad_examples=2)
  take(batches, 5)
  assert batches.bad_examples(before=20) == [2, 5]
  ids, _ = order.example_ids(np.arange(20), COUNT, seed=5)
  assert {2, 5} <= set(ids.tolist())
  with pytest.raises(UserError, match=r"record 5 of datasets:.*damaged"):
    take(host_batches(source), 5)


@pytest.mark.parametrize("form", ["saved", "arrow", "parquet"])
def test_a_file_cut_anywhere_is_named(form, tmp_path):
  FORMS[form](tmp_path / "d")
  path = max(
    (tmp_path / "d").rglob(f"*.{'parquet' if form == 'parquet' else 'arrow'}")
  )
  content = path.read_bytes()
  for end in (0, 5, len(content) // 3, len(content) - 8, len(content) - 1):
    path.write_bytes(content[:end])
    says = rf"1 of its files cannot be read: {re.escape(str(path))} \(.*again"
    with pytest.raises(UserError, match=says):
      open_(tmp_path / "d")


def test_a_row_group_that_is_damaged_or_replaced_is_named(tmp_path):
  pairs_only("parquet in place", tmp_path / "d")
  path = tmp_path / "d/train.parquet"
  content = bytearray(path.read_bytes())
  content[4:24] = b"x" * 20  # The first page of the first row group.
  path.write_bytes(content)
  source = open_(tmp_path / "d", shuffle_block=3)
  assert source.read(np.array([9]))["image"].tolist() == [picture(9)]
  says = rf"{re.escape(str(path))}: row group 0 cannot be read \(.*again"
  with pytest.raises(UserError, match=says):
    source.read(np.array([9, 0]))
  os.utime(path, (1, 1))
  with pytest.raises(UserError, match="train.parquet has changed since"):
    source.read(np.array([5]))


def test_a_directory_of_images_is_what_the_library_makes_of_it(tmp_path):
  for number in range(6):
    path = tmp_path / f"d/train/{NAMES[number % 3]}/{number}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(picture(number))
  source = open_(tmp_path / "d")
  assert source.class_names == tuple(NAMES)
  names = source.file_names(np.arange(6))
  images = source.read(np.arange(6))["image"].tolist()
  assert images == [picture(int(name[0])) for name in names]


def test_a_record_that_names_a_file_elsewhere_is_refused(tmp_path):
  (tmp_path / "secret.png").write_bytes(picture(0))
  path = str(tmp_path / "secret.png")
  found = datasets.Dataset.from_dict({"image": [path] * 2, "label": [0, 1]})
  found.cast_column("image", datasets.Image(decode=False)).to_parquet(
    tmp_path / "d.parquet"
  )
  (tmp_path / "d").mkdir()
  import pyarrow as pa

  features = datasets.Features(
    image=datasets.Image(), label=datasets.ClassLabel(names=NAMES)
  )
  rows = {"image": [{"bytes": None, "path": path}] * 2, "label": [0, 1]}
  written = pa.table(rows, schema=features.arrow_schema)
  with pa.ipc.new_stream(tmp_path / "d/train.arrow", written.schema) as writer:
    writer.write_table(written)
  with pytest.raises(UserError, match="which is not one of the dataset's"):
    open_(tmp_path / "d").read(np.array([0]))


def test_configurations_of_a_readme_have_their_own_files(tmp_path):
  files = {"small": 3, "large": 5, "huge": 7}
  for name, count in files.items():
    (tmp_path / "d" / name).mkdir(parents=True)
    table(count).to_parquet(tmp_path / "d" / name / "train-0.parquet")
  (tmp_path / "d/README.md").write_text(
    "---\n"
    "configs:\n"
    "- config_name: small\n"
    "  data_files: [{split: train, path: 'small/train-*'}]\n"
    "- config_name: large\n"
    "  data_dir: large\n"
    "- config_name: huge\n"
    "  data_dir: huge\n"
    "  data_files: [{split: val, path: '*.parquet'}]\n"
    "---\n"
  )
  for name, count in files.items():
    split = "val" if name == "huge" else "train"
    assert open_(f"{tmp_path}/d:{name}", split).num_examples == count
  says = "several configurations, 'small', 'large', 'huge'; name one, as in"
  with pytest.raises(UserError, match=says):
    open_(tmp_path / "d")
  with pytest.raises(UserError, match="no configuration 'tiny'; it has: 'sm"):
    open_(f"{tmp_path}/d:tiny")


def test_relative_directories_start_from_data_dir(tmp_path):
  saved(tmp_path / "d")
  source = sources.open_source("datasets:d", "train", data_dir=str(tmp_path))
  assert source.num_examples == COUNT
  with pytest.raises(UserError, match=f"no directory {tmp_path}/./e"):
    sources.open_source("datasets:./e", "train", data_dir=str(tmp_path))


def test_without_the_library_a_sentence_says_how_to_install_it(
  tmp_path, monkeypatch
):
  monkeypatch.setitem(__import__("sys").modules, "datasets", None)
  with pytest.raises(UserError, match="pip install datasets"):
    open_(tmp_path)


@pytest.mark.parametrize("name", ["", "gs://bucket/d"])
def test_other_names_are_sentences(name):
  with pytest.raises(UserError, match=f"^datasets:{name}"):
    sources.check(f"datasets:{name}")


def test_a_mapped_table_takes_no_memory_of_its_own(tmp_path):
  import pyarrow as pa

  saved(tmp_path / "d")
  before = pa.total_allocated_bytes()
  source = open_(tmp_path / "d")
  source.read(np.arange(COUNT))
  size = os.path.getsize(tmp_path / "d/train/data-00000-of-00001.arrow")
  assert pa.total_allocated_bytes() - before < size / 2


@pytest.mark.parametrize("block", [1, 64])
def test_categories_of_pandas_are_names_of_classes(block, tmp_path):
  pd = pytest.importorskip("pandas")
  words = ["cow", "ant", None, "cow"]
  frame = pd.DataFrame(
    {
      "image": [{"bytes": picture(i), "path": f"{i}.png"} for i in range(4)],
      "label": pd.Categorical(words),
    }
  )
  (tmp_path / "d").mkdir()
  frame.to_parquet(tmp_path / "d" / "train.parquet")
  source = open_(tmp_path / "d", shuffle_block=block, max_bad_examples=1)
  assert source.class_names == ("ant", "cow")
  assert source.known_labels().tolist() == [1, 0, -1, 1]


def test_a_number_beyond_the_classes_counts_for_none(tmp_path):
  good = table()
  (tmp_path / "d").mkdir()
  arrow_table = good.data.table
  numbers = [i % 3 for i in range(COUNT - 1)] + [9]
  place = arrow_table.column_names.index("label")
  field = arrow_table.schema.field("label")
  changed = arrow_table.set_column(place, field, [numbers])
  pq = pytest.importorskip("pyarrow.parquet")
  pq.write_table(changed, tmp_path / "d" / "train.parquet")
  with pytest.raises(UserError, match="record 9 .*label 9"):
    open_(tmp_path / "d")
  source = open_(tmp_path / "d", max_bad_examples=1)
  assert source.num_classes == 3
  assert source.known_labels().tolist() == [*numbers[:-1], -1]
