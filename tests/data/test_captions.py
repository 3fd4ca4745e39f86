"""Folders of images and captions."""

import io
import json
import os
import re

import jax
import numpy as np
import pytest
from PIL import Image

from tests.data.caption_pairs import ByteTokenizer, texts_of
from tests.data.test_pipeline import mesh_of
from vit_jax.data import features, order, pipeline, sources, spec
from vit_jax.data.host_batches import HostBatches
from vit_jax.errors import UserError

BATCH = 4
COUNT = 10


def picture(seed):
  pixels = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), np.uint8)
  file = io.BytesIO()
  Image.fromarray(pixels).save(file, "PNG")
  return file.getvalue()


def write(root, name, content):
  path = root / name
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_bytes(content if isinstance(content, bytes) else content.encode())


def lines(count, prefix="images/"):
  return [
    {"image": f"{prefix}{i}.png", "captions": [f"{i} one", f"{i} two"]}
    for i in range(count)
  ]


def as_jsonl(values):
  return "".join(json.dumps(value) + "\n" for value in values)


def open_(root, split="train", **options):
  return sources.open_source("captions", split, data_dir=str(root), **options)


@pytest.fixture
def pairs(tmp_path):
  """Ten pictures in train/ with two captions each, three in val/."""
  for split, count in (("train", COUNT), ("val", 3)):
    for i in range(count):
      write(tmp_path, f"{split}/images/{i}.png", picture(i))
    write(tmp_path, f"{split}/captions.jsonl", as_jsonl(lines(count)))
  return tmp_path


def host_batches(source, *, rows=range(BATCH), first=0, seed=5, **options):
  parsed = spec.parse("decode|inception_crop(8)|tokenize(12)", 8)
  (call,) = parsed.of_kind("text")
  declared = features.Features(
    (features.View("image", parsed),),
    parsed,
    max_labels=source.max_labels,
    captions=features.Captions(call, length=12),
  )
  return HostBatches(
    source,
    declared,
    order=lambda rows: order.example_ids(rows, source.num_examples, seed=seed)[
      0
    ],
    local_rows=np.array(rows),
    batch_size=BATCH,
    first_row=first,
    seed=seed,
    tokenizer=ByteTokenizer(),
    **options,
  )


def take(batches, count):
  found = [next(batches) for _ in range(count)]
  batches.close()
  return found


def assert_equal(ours, expected):
  for a, b in zip(ours, expected, strict=True):
    assert a.keys() == b.keys() == {"image", "text"}
    for name in a:
      assert np.array_equal(a[name], b[name]), name


def test_an_example_is_an_image_and_all_its_captions(pairs):
  source = open_(pairs)
  assert source.num_examples == COUNT
  assert source.features == {"image": sources.Image(), "text": sources.Text()}
  assert source.num_classes is None and source.class_names is None
  assert source.max_labels == 0
  batch = source.read(np.array([7, 0, 7]))
  assert batch["text"].tolist() == [
    ("7 one", "7 two"),
    ("0 one", "0 two"),
    ("7 one", "7 two"),
  ]
  assert batch["image"].tolist() == [picture(7), picture(0), picture(7)]
  assert source.file_names(np.array([3])) == ["3.png"]


def test_captions_are_read_without_their_images(pairs):
  source = open_(pairs)
  for i in range(COUNT):
    os.remove(pairs / f"train/images/{i}.png")
  assert source.captions(np.array([2])).tolist() == [("2 one", "2 two")]


def test_rows_of_the_same_image_are_one_example(tmp_path):
  for i in range(2):
    write(tmp_path, f"{i}.png", picture(i))
  write(
    tmp_path, "captions.csv", "image,caption\n0.png,a\n1.png,b\n./0.png,c\n"
  )
  source = open_(tmp_path)
  assert source.captions(np.arange(2)).tolist() == [("a", "c"), ("b",)]


@pytest.mark.parametrize(
  "layout",
  [
    ("train/captions.csv", "val/captions.csv"),
    ("train/metadata.jsonl", "val/metadata.csv"),
    ("train/karpathy.jsonl", "val/any.jsonl"),
    ("train.jsonl", "val.csv"),
    ("train.csv", "val/captions.jsonl"),
  ],
)
def test_lists_are_found_by_split(layout, tmp_path):
  for number, name in enumerate(layout):
    image = f"{number}.png"
    write(tmp_path, os.path.join(os.path.dirname(name), image), picture(0))
    content = f"image,caption\n{image},text {number}\n"
    if name.endswith("jsonl"):
      content = as_jsonl([{"file_name": image, "text": f"text {number}"}])
    write(tmp_path, name, content)
  for number, split in enumerate(("train", "val")):
    (texts,) = open_(tmp_path, split).captions(np.arange(1))
    assert texts == (f"text {number}",)
  assert open_(tmp_path, "train+val").num_examples == 2
  with pytest.raises(UserError, match="Present: train .*, val"):
    open_(tmp_path, "test")


def test_a_folder_with_one_list_is_the_split_train(tmp_path):
  write(tmp_path, "1.png", picture(1))
  write(tmp_path, "flickr.csv", "image,caption\n1.png,a dog\n")
  assert open_(tmp_path).num_examples == 1


@pytest.mark.parametrize(
  ("files", "says"),
  [
    ([], "has no list of captions; they are looked for as captions.csv"),
    (["a.csv", "b.jsonl"], "several lists of captions: a.csv, b.jsonl"),
    (["train.csv", "train.jsonl"], "several lists .* train.csv, train.jsonl"),
    (["train/captions.csv", "train/captions.jsonl"], "train has several lists"),
  ],
)
def test_lists_that_cannot_be_told_apart_are_a_sentence(files, says, tmp_path):
  for name in files:
    write(tmp_path, name, "image,caption\n")
  with pytest.raises(UserError, match=says):
    open_(tmp_path)


def test_a_directory_is_asked_for():
  with pytest.raises(UserError, match="config.data_dir is not set"):
    sources.open_source("captions", "train", data_dir=None)


def test_slices_cut_the_list_in_its_order(pairs):
  source = open_(pairs, "train[2:4]+val[:1]")
  assert [texts[0] for texts in source.captions(np.arange(3))] == [
    "2 one",
    "3 one",
    "0 one",
  ]


def test_the_fingerprint_is_that_of_paths_and_captions(pairs, tmp_path):
  first = open_(pairs).fingerprint
  assert open_(pairs).fingerprint == first
  changed = lines(COUNT)
  changed[3]["captions"][1] = "3 deux"
  write(pairs, "train/captions.jsonl", as_jsonl(changed))
  assert open_(pairs).fingerprint != first


def test_a_row_draws_one_caption_of_its_own_example(pairs):
  batches = take(host_batches(open_(pairs)), 50)
  texts = [text for batch in batches for text in texts_of(batch["text"])]
  ids, _ = order.example_ids(np.arange(50 * BATCH), COUNT, seed=5)
  assert [text.split()[0] for text in texts] == [str(i) for i in ids]
  first = sum(text.endswith("one") for text in texts)
  # 200 fair draws: five standard deviations are 35.
  assert 65 < first < 135
  # Of an image, both are seen, and in no fixed order of the epochs.
  for number in range(COUNT):
    seen = [t.split()[1] for t in texts if t.split()[0] == str(number)]
    assert set(seen) == {"one", "two"}


def test_another_seed_draws_other_captions(pairs):
  def texts(seed):
    (batch,) = take(host_batches(open_(pairs), seed=seed, rows=range(BATCH)), 1)
    return texts_of(batch["text"])

  assert len({tuple(t.split()[1] for t in texts(s)) for s in range(8)}) > 2


@pytest.mark.parametrize("step", [1, 4])
def test_a_resumed_run_reads_the_same_pairs(step, pairs):
  whole = take(host_batches(open_(pairs)), 6)
  late = take(host_batches(open_(pairs), first=step * BATCH), 6 - step)
  assert_equal(late, whole[step:])


@pytest.mark.parametrize("num_processes", [2, 4])
def test_processes_together_read_the_same_pairs(num_processes, pairs):
  whole = take(host_batches(open_(pairs)), 6)
  share = BATCH // num_processes
  parts = [
    take(host_batches(open_(pairs), rows=range(p * share, (p + 1) * share)), 6)
    for p in range(num_processes)
  ]
  together = [
    {name: np.concatenate([part[name] for part in step]) for name in step[0]}
    for step in zip(*parts, strict=True)
  ]
  assert_equal(together, whole)


def spoil(root, name):
  """Makes example 4 of train unfit; returns what is said of it."""
  changed = lines(COUNT)
  if name == "missing":
    os.remove(root / "train/images/4.png")
    return r"images/4.png \(missing\)"
  if name == "no image":
    write(root, "train/images/4.png", "hello")
    return r"images/4.png \(no image\)"
  if name == "empty":
    changed[4]["captions"] = ["", " "]
  if name == "outside":
    changed[4]["image"] = "../../4.png"
  content = as_jsonl(changed).encode()
  if name == "broken":
    content = content.replace(b"4 one", b"4 \xff")
  write(root, "train/captions.jsonl", content)
  reason = {
    "empty": "empty caption",
    "broken": "broken UTF-8",
    "outside": r"\.\./\.\./4.png is outside of .*",
  }[name]
  return rf"captions.jsonl, line 5 \({reason}\)"


SPOILT = pytest.mark.parametrize(
  "name", ["missing", "no image", "empty", "broken", "outside"]
)


@SPOILT
def test_pairs_that_cannot_be_used_are_counted_and_named(name, pairs):
  says = spoil(pairs, name)
  with pytest.raises(
    UserError,
    match=rf"1 of the examples cannot be used: .*{says}.* of training data,"
    r" config.train.max_bad_examples = 1 lets others take their place",
  ):
    open_(pairs)
  assert open_(pairs, "val").num_examples == 3
  assert open_(pairs, "train[:4]").num_examples == 4


def test_a_path_written_as_on_windows_is_told_the_remedy(tmp_path):
  image = tmp_path / "images" / "1.png"
  image.parent.mkdir()
  image.write_bytes(b"")
  write(tmp_path, "captions.csv", "image,caption\nimages\\1.png,a cat\n")
  with pytest.raises(UserError, match=r"missing; write / instead of \\"):
    open_(tmp_path)


def test_nothing_is_to_take_the_place_of_all(pairs):
  for number in range(COUNT):
    write(pairs, f"train/images/{number}.png", "hello")
  with pytest.raises(UserError, match=r"Fix or remove them\.$"):
    open_(pairs)


@SPOILT
def test_tolerated_ones_are_replaced_and_the_others_stay(name, pairs, caplog):
  whole = [t for b in take(host_batches(open_(pairs)), 5) for t in b["text"]]
  says = spoil(pairs, name)
  source = open_(pairs, max_bad_examples=1)
  assert source.num_examples == COUNT
  batches = host_batches(source, max_bad_examples=1)
  found = [t for b in take(batches, 5) for t in b["text"]]
  ids, _ = order.example_ids(np.arange(20), COUNT, seed=5)
  for number, ours, before in zip(ids, found, whole, strict=True):
    if number == 4:  # Its neighbour takes its place.
      assert texts_of(ours[None])[0].startswith("5 ")
    else:
      assert np.array_equal(ours, before)
  assert batches.bad_examples(before=20) == [4]
  assert re.search(says, caplog.text)


def test_an_image_with_another_caption_stays(pairs):
  changed = lines(COUNT)
  changed[4]["captions"][0] = ""
  write(pairs, "train/captions.jsonl", as_jsonl(changed))
  with pytest.raises(UserError, match=r"line 5 \(empty caption\)"):
    open_(pairs)
  source = open_(pairs, max_bad_examples=1)
  assert source.captions(np.array([4])).tolist() == [("4 two",)]


def test_a_link_that_leads_elsewhere_is_refused(pairs, tmp_path_factory):
  other = tmp_path_factory.mktemp("other") / "secret.png"
  other.write_bytes(picture(0))
  os.remove(pairs / "train/images/4.png")
  (pairs / "train/images/4.png").symlink_to(other)
  with pytest.raises(UserError, match=r"4.png is a link to .*secret.png"):
    open_(pairs)


def test_an_evaluation_sees_each_image_once_and_all_its_captions(pairs):
  source = open_(pairs)
  batches = pipeline.eval_batches(
    source,
    preprocess=spec.check("decode|resize(8)", 8, train=False),
    batch_size=4,
    mesh=mesh_of(),
  )
  ids = []
  for batch in map(jax.device_get, batches):
    assert batch.keys() == {"image", "id", "mask"}
    ids += batch["id"][batch["mask"]].tolist()
  assert ids == list(range(COUNT))
  texts = source.captions(np.array(ids))
  assert [len(captions) for captions in texts] == [2] * COUNT
