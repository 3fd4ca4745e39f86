"""Datasets that are stored otherwise, written as ArrayRecord files."""

import json

import numpy as np
import pytest

from tests.data.building import pictures
from vit_jax.data import sources
from vit_jax.errors import UserError

COUNT = 12


@pytest.fixture
def tars(tmp_path):
  """Two tar files of pictures with classes and two captions each."""
  for shard in range(2):
    files = {}
    for i in range(shard * COUNT // 2, (shard + 1) * COUNT // 2):
      texts = {"captions": [f"{i} one", f"{i} two"]}
      files[f"{i:03d}.png"] = pictures.png(i)
      files[f"{i:03d}.cls"] = str(i % 3).encode()
      files[f"{i:03d}.json"] = json.dumps(texts).encode()
    pictures.tar(tmp_path / f"shards/{shard}.tar", files)
  return f"webdataset:{tmp_path}/shards/*.tar"


def everything(source):
  """{image: (label, captions)} of all records."""
  batch = source.read(np.arange(source.num_examples))
  labels = batch.get("label", np.zeros(source.num_examples)).tolist()
  texts = batch.get("text", [()] * source.num_examples)
  pairs = zip(labels, map(tuple, texts), strict=True)
  return dict(zip(batch["image"].tolist(), pairs, strict=True))


def make(tmp_path, path, name="toy", **options):
  from vit_jax.data.building import build

  return build.build(
    name,
    str(tmp_path / "data"),
    path,
    num_workers=1,
    show=lambda *_: None,
    **options,
  )


def test_tar_files_keep_images_classes_and_captions(tars, tmp_path):
  built = make(tmp_path, tars, split="val", num_shards=2)
  assert built.splits == {"val": COUNT} and built.max_labels == 1
  data_dir = str(tmp_path / "data")
  written = sources.open_source("toy", "val", data_dir=data_dir)
  original = sources.open_source(tars, "train", data_dir=None)
  assert written.num_classes == original.num_classes == 3
  assert everything(written) == everything(original)
  names = sorted(written.file_names(np.arange(COUNT)))
  assert names == [f"{i:03d}.png" for i in range(COUNT)]
  assert make(tmp_path, tars, split="val", num_shards=2).was_there


def test_what_cannot_be_used_is_named_or_left_out(tmp_path):
  files = {f"{i}.{s}": pictures.png(i) if s == "png" else b"text"
           for i in range(5) for s in ("png", "txt")}  # fmt: skip
  del files["2.txt"]
  files["3.png"] = files["3.png"][:60]
  tar = pictures.tar(tmp_path / "a.tar", files)
  with pytest.raises(UserError, match="2 images cannot be used: .*no caption"):
    make(tmp_path, f"webdataset:{tar}")
  built = make(tmp_path, f"webdataset:{tar}", skip_unusable=True)
  assert built.num_unusable == 2 and built.max_labels == 0
  source = sources.open_source("toy", "train", data_dir=str(tmp_path / "data"))
  assert source.label is None
  expected = {pictures.png(i): (0, ("text",)) for i in (0, 1, 4)}
  assert everything(source) == expected


def test_columns_and_names_of_classes_are_those_of_the_dataset(
  tmp_path, monkeypatch
):
  datasets = pytest.importorskip("datasets")
  monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
  classes = datasets.ClassLabel(names=list(pictures.CLASSES))
  features = datasets.Features(
    img=datasets.Image(), coarse=classes, other=classes
  )

  def table(count):
    return datasets.Dataset.from_dict(
      {
        "img": [{"bytes": pictures.png(i), "path": None} for i in range(count)],
        "coarse": [i % 3 for i in range(count)],
        "other": [0] * count,
      },
      features=features,
    )

  datasets.DatasetDict(train=table(9), test=table(4)).save_to_disk(
    tmp_path / "saved"
  )
  path = f"datasets:{tmp_path}/saved"
  built = make(tmp_path, path, label_key="coarse")
  assert built.splits == {"test": 4, "train": 9}
  source = sources.open_source("toy", "train", data_dir=str(tmp_path / "data"))
  assert source.class_names == pictures.CLASSES
  expected = {pictures.png(i): (i % 3, ()) for i in range(9)}
  assert everything(source) == expected
  with pytest.raises(UserError, match="--split=val: --from=datasets:.* splits"):
    make(tmp_path, path, split="val")
  with pytest.raises(
    UserError, match="label_key = 'img' holds Image, no class"
  ):
    make(tmp_path, path, label_key="img")


@pytest.mark.parametrize("name", ["", "  ", "red\npanda"])
def test_a_class_without_a_line_of_its_own_is_refused(
  tmp_path, monkeypatch, name
):
  """TFDS stores one a line and drops blank ones: all others would move up."""
  datasets = pytest.importorskip("datasets")
  monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
  table = datasets.Dataset.from_dict(
    {
      "image": [{"bytes": pictures.png(i), "path": None} for i in range(3)],
      "label": [0, 1, 1],
    },
    features=datasets.Features(
      image=datasets.Image(), label=datasets.ClassLabel(names=[name, "cat"])
    ),
  )
  datasets.DatasetDict(train=table).save_to_disk(tmp_path / "saved")
  with pytest.raises(UserError, match="the name of class .* is empty or of"):
    make(tmp_path, f"datasets:{tmp_path}/saved")


@pytest.mark.parametrize("labelled", [True, False])
def test_a_caption_may_lack_beside_a_class_only(labelled, tmp_path):
  datasets = pytest.importorskip("datasets")
  texts = [None, " ", "two", "three"]
  content = {
    "image": [{"bytes": pictures.png(i), "path": None} for i in range(4)],
    "text": texts,
  }
  features = {"image": datasets.Image(), "text": datasets.Value("string")}
  if labelled:
    content["label"] = [i % 3 for i in range(4)]
    features["label"] = datasets.ClassLabel(names=list(pictures.CLASSES))
  datasets.Dataset.from_dict(
    content, features=datasets.Features(features)
  ).save_to_disk(tmp_path / "saved")
  path = f"datasets:{tmp_path}/saved"
  if not labelled:
    with pytest.raises(UserError, match="2 images cannot be used: .*caption"):
      make(tmp_path, path)
    return
  assert make(tmp_path, path).splits == {"train": 4}
  source = sources.open_source(
    "toy", "train", data_dir=str(tmp_path / "data"), captions=False
  )
  batch = source.read(np.arange(4))
  found = dict(zip(batch["image"].tolist(), batch["label"], strict=True))
  assert found == {pictures.png(i): i % 3 for i in range(4)}
  source = sources.open_source("toy", "train", data_dir=str(tmp_path / "data"))
  names = source.names(np.arange(4))
  kept = {}
  for i, name in enumerate(names):
    try:
      kept[name] = source.captions(np.array([i]))[0]
    except UserError as error:
      assert "no caption" in str(error)
  assert sorted(kept.values()) == [("three",), ("two",)]


def test_images_alone_are_made_only_on_request(tmp_path):
  files = {f"{i}.png": pictures.png(i) for i in range(5)}
  path = f"webdataset:{pictures.tar(tmp_path / 'a.tar', files)}"
  with pytest.raises(UserError, match="neither classes nor .* --unlabelled"):
    make(tmp_path, path)
  assert make(tmp_path, path, unlabelled=True).splits == {"train": 5}
  assert images_alone(tmp_path, "train") == sorted(files.values())


def test_classes_and_captions_can_be_left_out(tars, tmp_path):
  built = make(tmp_path, tars, unlabelled=True)
  assert built.splits == {"train": COUNT} and built.max_labels == 0
  expected = sorted(pictures.png(i) for i in range(COUNT))
  assert images_alone(tmp_path, "train") == expected


def test_images_without_captions_are_kept_where_they_are_left_out(tmp_path):
  datasets = pytest.importorskip("datasets")
  images = [{"bytes": pictures.png(i), "path": None} for i in range(3)]
  table = datasets.Dataset.from_dict(
    {"image": images, "text": ["one", None, " "]},
    features=datasets.Features(
      {"image": datasets.Image(), "text": datasets.Value("string")}
    ),
  )
  datasets.DatasetDict(more=table).save_to_disk(tmp_path / "saved")
  built = make(tmp_path, f"datasets:{tmp_path}/saved", unlabelled=True)
  assert built.splits == {"more": 3}
  expected = sorted(pictures.png(i) for i in range(3))
  assert images_alone(tmp_path, "more") == expected


@pytest.mark.parametrize("skip_unusable", [False, True])
@pytest.mark.parametrize(
  ("extension", "texts"),
  [("cls", [b"1", None, b"cat", b"0"]), ("txt", [b"one", None, b"", b"\xff"])],
)
def test_images_of_tars_count_whatever_lies_beside_them(
  tmp_path, extension, texts, skip_unusable
):
  files = {}
  for i, text in enumerate(texts):
    files[f"{i}.png"] = pictures.png(i)
    if text is not None:
      files[f"{i}.{extension}"] = text
  path = f"webdataset:{pictures.tar(tmp_path / 'a.tar', files)}"
  built = make(tmp_path, path, unlabelled=True, skip_unusable=skip_unusable)
  assert built.splits == {"train": 4} and not built.num_unusable
  expected = sorted(pictures.png(i) for i in range(4))
  assert images_alone(tmp_path, "train") == expected


def test_images_whose_file_is_damaged_are_still_named(tmp_path):
  files = {f"{i}.png": pictures.png(i) for i in range(3)} | {"2.cls": b"1"}
  files["3.png"] = pictures.png(3)[:60]
  path = f"webdataset:{pictures.tar(tmp_path / 'a.tar', files)}"
  with pytest.raises(UserError, match=r"1 images cannot be used: .*3\.png"):
    make(tmp_path, path, unlabelled=True)


@pytest.mark.parametrize(
  ("labels", "label_key"),
  [([1, None, 0, None], "label"), ([0, 0, None, 0], "label"),
   (["a", None, "", "b"], "label"), ([0.5, None, 1.0, 2.0], "coarse")],
)  # fmt: skip
def test_images_of_a_table_count_whatever_their_classes_are(
  tmp_path, monkeypatch, labels, label_key
):
  datasets = pytest.importorskip("datasets")
  monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
  images = [{"bytes": pictures.png(i), "path": None} for i in range(4)]
  table = datasets.Dataset.from_dict({"image": images, label_key: labels})
  table = table.cast_column("image", datasets.Image())
  datasets.DatasetDict(more=table).save_to_disk(tmp_path / "saved")
  built = make(
    tmp_path,
    f"datasets:{tmp_path}/saved",
    unlabelled=True,
    label_key=label_key,
  )
  assert built.splits == {"more": 4} and not built.num_unusable
  expected = sorted(pictures.png(i) for i in range(4))
  assert images_alone(tmp_path, "more") == expected


def images_alone(tmp_path, split):
  """The images of the dataset that was made, which holds nothing else."""
  source = sources.open_source("toy", split, data_dir=str(tmp_path / "data"))
  batch = source.read(np.arange(source.num_examples))
  assert set(source.features) == {"image"} == set(batch)
  return sorted(batch["image"])


def test_a_tar_that_is_cut_off_is_named_or_listed(tars, tmp_path):
  cut = tmp_path / "shards/1.tar"
  content = cut.read_bytes()
  cut.write_bytes(content[: content.index(b"009.png")])
  with pytest.raises(UserError, match=r"1 are not whole: .*1\.tar \(it"):
    make(tmp_path, tars)
  assert not (tmp_path / "data/toy").exists()
  built = make(tmp_path, tars, skip_unusable=True)
  assert built.splits == {"train": 9} and built.num_unusable == 1
  (line,) = (built.directory / "unusable.jsonl").read_text().splitlines()
  listed = json.loads(line)
  assert listed["name"] == str(cut) and "cut off" in listed["problem"]


def test_bad_records_are_named_in_the_end_and_not_by_every_process(
  tars, tmp_path, caplog, capfd
):
  pictures.tar(tmp_path / "shards/2.tar", {"9.png": pictures.png(9)})
  with pytest.raises(UserError, match=r"1 images .*9\.png .*no caption"):
    make(tmp_path, tars)
  assert "cannot be used" not in caplog.text + capfd.readouterr().err


def test_tars_of_which_nothing_is_whole_are_named(tmp_path):
  (tmp_path / "a.tar").write_bytes(b"")
  for skip in (False, True):
    with pytest.raises(UserError, match=r"a\.tar \(it is empty\)"):
      make(tmp_path, f"webdataset:{tmp_path}/a.tar", skip_unusable=skip)
