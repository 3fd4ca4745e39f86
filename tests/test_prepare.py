import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tarfile

import numpy as np
import pytest
import tensorflow_datasets as tfds
from etils import epath
from PIL import Image

import vit_jax
from tests.data.building import pictures
from tests.weights.published import GOLDEN
from vit_jax.data import checksums, sources
from vit_jax.data.tfds import preparation
from vit_jax.errors import UserError

HOME = os.path.expanduser("~")


def _run(*arguments, **options):
  command = [sys.executable, "-m", "vit_jax.prepare", *map(str, arguments)]
  return subprocess.run(command, capture_output=True, text=True, **options)


def _fill(root, count=12):
  for i in range(count):
    path = pathlib.Path(root, ("train", "test")[i % 3 == 0], "ab"[i % 2])
    path.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(i).integers(0, 256, (16, 16, 3), np.uint8)
    Image.fromarray(pixels).save(path / f"{i}.jpg")


class TinyPictures(tfds.core.GeneratorBasedBuilder):
  """Registered with TFDS under the name tiny_pictures."""

  VERSION = tfds.core.Version("1.0.0")
  RELEASE_NOTES = {"1.0.0": "First version."}
  pkg_dir_path = pathlib.Path(__file__).parent

  def _info(self):
    features = tfds.features.FeaturesDict(
      {
        "image": tfds.features.Image(shape=(8, 8, 3), encoding_format="jpeg"),
        "label": tfds.features.ClassLabel(num_classes=3),
      }
    )
    return tfds.core.DatasetInfo(builder=self, features=features)

  def _split_generators(self, dl_manager):
    return {"train": self._generate_examples()}

  def _generate_examples(self):
    for i in range(9):
      image = np.full((8, 8, 3), 20 * i, np.uint8)
      yield i, {"image": image, "label": i % 3}


class FetchedByHand(TinyPictures):
  """Registered as fetched_by_hand."""

  MANUAL_DOWNLOAD_INSTRUCTIONS = "Ask the authors for pictures.zip."


class Failing(TinyPictures):
  """Registered as failing."""

  def _generate_examples(self):
    raise ConnectionError("no route to host")
    yield


def test_new_dataset_is_written_as_uncompressed_array_record(tmp_path):
  from array_record.python import array_record_module

  line = preparation.prepare("tiny_pictures", str(tmp_path))
  directory = tmp_path / "tiny_pictures/1.0.0"
  assert line == (
    f"tiny_pictures/1.0.0 is ready in {directory} as array_record: train 9."
  )
  (path,) = directory.glob("*array_record*")
  reader = array_record_module.ArrayRecordReader(str(path))
  assert "group_size:1" in reader.writer_options_string()
  assert "uncompressed" in reader.writer_options_string()
  source = sources.open_source("tiny_pictures", "train", data_dir=str(tmp_path))
  labels = source.read(np.arange(9))["label"]
  assert sorted(labels) == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_tfrecord_files_that_are_there_are_indexed(tmp_path):
  TinyPictures(data_dir=tmp_path, file_format="tfrecord").download_and_prepare()
  line = preparation.prepare("tiny_pictures:1.0.0", str(tmp_path))
  assert line.endswith("as tfrecord: train 9.")
  assert list(tmp_path.rglob("*train*.offsets.npy"))


def test_unknown_dataset_names_the_nearest(tmp_path):
  with pytest.raises(
    UserError, match="no dataset 'tiny_picture'. Did you mean"
  ):
    preparation.prepare("tiny_picture", str(tmp_path))


def test_unknown_version_is_a_sentence(tmp_path):
  with pytest.raises(UserError, match="at version 9.9.9, only: 1.0.0"):
    preparation.prepare("tiny_pictures:9.9.9", str(tmp_path))


def test_files_to_fetch_by_hand_are_asked_for(tmp_path):
  with pytest.raises(UserError) as error:
    preparation.prepare("fetched_by_hand", str(tmp_path))
  message = str(error.value)
  assert message.startswith("pictures.zip of fetched_by_hand/1.0.0 must be")
  assert f"put into {tmp_path}/downloads/manual" in message
  assert message.endswith("Ask the authors for pictures.zip.")


def test_archives_that_are_missing_beside_others_are_warned_of(
  tmp_path, caplog
):
  manual = tmp_path / "downloads/manual"
  manual.mkdir(parents=True)
  (manual / "others.zip").touch()
  preparation.prepare("fetched_by_hand", str(tmp_path))
  assert f"pictures.zip is not in {manual}" in caplog.text


def test_imagenet_says_where_its_archives_must_lie(tmp_path):
  """Before anything is tried, and without a network."""
  run = _run("imagenet2012", f"--data_dir={tmp_path}")
  assert run.returncode == 1
  assert (
    "ILSVRC2012_img_train.tar and ILSVRC2012_img_val.tar of imagenet2012/5.1.0"
    f" must be fetched by hand and put into {tmp_path}/downloads/manual."
  ) in run.stderr
  assert not list(tmp_path.iterdir())


def test_downloaded_datasets_have_checksums(tmp_path):
  preparation.prepare("tiny_pictures", str(tmp_path))
  (path,) = tmp_path.glob("tiny_pictures/1.0.0/*array_record*")
  files = checksums.read(epath.Path(path.parent))
  assert files == {path.name: checksums.of_file(path)}


def test_failed_preparation_is_a_sentence_and_leaves_nothing(tmp_path):
  with pytest.raises(UserError, match="ConnectionError: .*no route to host"):
    preparation.prepare("failing", str(tmp_path))
  assert not list(tmp_path.rglob("*.json"))


def test_help_has_an_example():
  run = _run("--help")
  assert "python -m vit_jax.prepare cifar10 --data_dir=DIR" in run.stdout


@pytest.mark.parametrize(
  "arguments, message",
  [
    ((), "Name one dataset"),
    (("my data",), "'my data' is not the name of a dataset"),
    (("folder",), "Name the image folder with --data_dir=DIR."),
    (("folder", "--data_dir=/nowhere"), "/nowhere cannot be listed"),
  ],
)
def test_bad_input_is_a_sentence_and_exit_code_1(arguments, message):
  run = _run(*arguments)
  assert run.returncode == 1
  assert run.stderr.startswith("error: ") and message in run.stderr


def test_check_of_a_good_folder_says_so(tmp_path):
  _fill(tmp_path)
  run = _run("folder", f"--data_dir={tmp_path}", "--check")
  assert run.returncode == 0, run.stderr
  assert run.stdout.splitlines() == [
    "folder needs no preparation: 12 images in 2 classes.",
    "All 12 images can be read.",
  ]


def test_pairs_need_no_preparation_and_are_checked(tmp_path):
  Image.new("RGB", (4, 4)).save(tmp_path / "1.png")
  (tmp_path / "captions.csv").write_text("image,caption\n1.png,a dot\n")
  run = _run("captions", f"--data_dir={tmp_path}", "--check")
  assert run.returncode == 0, run.stderr
  assert run.stdout.splitlines() == [
    "captions needs no preparation: 1 images with captions.",
    "All 1 images can be read.",
  ]
  with tarfile.open(tmp_path / "0.tar", "w") as tar:
    tar.add(tmp_path / "1.png", "1.png")
    (tmp_path / "1.txt").write_text("a dot")
    tar.add(tmp_path / "1.txt", "1.txt")
  run = _run("webdataset:{0,0}.tar", f"--data_dir={tmp_path}")
  assert run.stdout == (
    "webdataset:{0,0}.tar is indexed: 2 images with captions.\n"
  )


def test_check_names_every_damaged_image(tmp_path):
  _fill(tmp_path)
  damaged = sorted(tmp_path.rglob("*.jpg"))[3:6]
  for path, size in zip(damaged, (0, 40, 300), strict=True):
    path.write_bytes(path.read_bytes()[:size])
  run = _run("folder", f"--data_dir={tmp_path}", "--check")
  assert run.returncode == 1
  assert "3 of the images cannot be read" in run.stderr
  for path in damaged:
    assert str(path) in run.stderr


def test_digits_are_prepared_without_a_network(tmp_path):
  run = _run("digits", f"--data_dir={tmp_path}")
  assert run.returncode == 0, run.stderr
  assert run.stdout == f"digits is ready in {tmp_path}/digits/1.0.0.\n"


def _make(tmp_path, path, *arguments):
  """Runs the command on an input in this process's directory."""
  arguments = ("toy", f"--data_dir={tmp_path}", f"--from={path}", *arguments)
  return _run(*arguments, "--workers=1")


_SMALL = (
  *("--config.model.variant=Ti/2", "--config.model.width=16"),
  *("--config.model.depth=1", "--config.model.num_heads=2"),
  *("--config.model.mlp_dim=32", "--config.model.image_size=4"),
  *("--config.total_steps=2", "--config.train.batch_size=4"),
  *("--config.schedule.warmup_steps=0", "--config.evals.test.every_steps=2"),
  *(
    "--config.evals.test.batch_size=4",
    "--config.log_every_steps=1",
  ),
)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["folder", "tars", "labels"])
def test_what_was_made_trains_by_the_printed_command(form, tmp_path):
  made_of = tmp_path / "in"
  preprocess = "decode|resize"
  if form == "folder":
    pictures.folder(made_of, train=20, val=8)
  elif form == "tars":
    pictures.tars(made_of, count=30)
  else:
    pictures.folder(made_of, train=20)
    images = sorted(made_of.rglob("*.png"))
    labels = [[i % 3, 3] if i % 2 else [i % 3] for i in range(20)]
    pairs = zip(images, labels, strict=True)
    values = [{"path": str(p), "labels": classes} for p, classes in pairs]
    pictures.lines(made_of / "lists/train.jsonl", *values)
    preprocess = "decode|resize|pad_labels(2)"
  path = made_of / "lists" if form == "labels" else made_of
  arguments = (f"--image_root={made_of}",) if form == "labels" else ()
  run = _make(tmp_path, path, *arguments)
  assert run.returncode == 0, run.stderr
  assert "toy/1.0.0 is ready in" in run.stdout
  command = shlex.split(run.stdout.splitlines()[-1])
  assert command[:3] == ["python", "-m", "vit_jax.train"]
  train = subprocess.run(
    [sys.executable, *command[1:], *_SMALL]
    + [f"--config.train.preprocess={preprocess}"],
    capture_output=True,
    text=True,
    cwd=tmp_path,
    env={**os.environ, "PYTHONPATH": str(pathlib.Path(__file__).parents[1])},
  )
  assert train.returncode == 0, train.stderr
  (metrics,) = tmp_path.glob("runs/toy/metrics.jsonl")
  assert "eval/test/top1" in metrics.read_text()
  check = _run("toy", f"--data_dir={tmp_path}", "--check")
  assert check.returncode == 0, check.stderr
  assert "images can be read" in check.stdout


def test_images_without_classes_are_made_and_checked(tmp_path):
  made_of = tmp_path / "in"
  pictures.folder(made_of, train=20)
  shutil.copy(next(made_of.rglob("*.png")), made_of / "train/one more.png")
  run = _make(tmp_path, made_of, "--unlabelled", "--check")
  assert run.returncode == 0, run.stderr
  assert "array_record: train 21." in run.stdout
  assert "All 21 images can be read." in run.stdout
  assert shlex.split(run.stdout.splitlines()[2]) == [
    *("python", "-m", "vit_jax.train", "--config=configs/dino.py"),
    *("--config.train.dataset=toy", "--config.evals={}"),
    *(f"--config.data_dir={tmp_path}", "--workdir=runs/toy"),
  ]
  source = sources.open_source("toy", "train", data_dir=str(tmp_path))
  ids = np.arange(source.num_examples)
  assert set(source.features) == {"image"} == set(source.read(ids))
  found = source.file_names(ids)
  assert "one more.png" in found and len(found) == 21
  whole = sorted(path.read_bytes() for path in made_of.rglob("*.png"))
  assert sorted(source.read(ids)["image"]) == whole


def test_a_dataset_without_train_is_learned_from_what_it_has(tmp_path):
  pictures.tar(tmp_path / "a.tar", {"1.png": pictures.png(1)})
  tars = f"webdataset:{tmp_path}/a.tar"
  run = _make(tmp_path, tars, "--unlabelled", "--split=web")
  assert run.returncode == 0, run.stderr
  assert "--config.train.split=web" in shlex.split(run.stdout.splitlines()[2])


def test_a_flipped_byte_is_found_by_the_check(tmp_path):
  pictures.folder(tmp_path / "photos")
  # The newest version is not the one that is made and checked.
  other = pictures.folder(tmp_path / "other", train=3)
  pictures.make(tmp_path, other, name="toy:1.0.1")
  run = _make(tmp_path, tmp_path / "photos", "--shards=3", "--check")
  assert run.returncode == 0, run.stderr
  assert "All 6 files are as they were written." in run.stdout
  assert "All 27 images can be read." in run.stdout
  path = tmp_path / "toy/1.0.0/toy-train.array_record-00001-of-00003"
  content = bytearray(path.read_bytes())
  content[-1] ^= 1  # In the padding, which reading would not notice.
  path.write_bytes(content)
  run = _run("toy:1.0.0", f"--data_dir={tmp_path}", "--check")
  assert run.returncode == 1
  assert f"1 of 6 files in {path.parent} are not as they were" in run.stderr
  assert f"{path.name} (other bytes)" in run.stderr


@pytest.mark.slow
def test_bad_images_stop_the_command_unless_skipped(tmp_path):
  photos = pictures.folder(tmp_path / "photos")
  (photos / "train/ant/0.png").write_bytes(b"")
  run = _make(tmp_path, photos)
  assert run.returncode == 1
  assert "1 images cannot be used: train ant/0.png (empty file)" in run.stderr
  run = _make(tmp_path, photos, "--skip_bad")
  assert run.returncode == 0, run.stderr
  assert "test 7, train 19" in run.stdout
  assert f"left out; they are listed in {tmp_path}/toy/1.0.0" in run.stdout


@pytest.mark.parametrize(
  "arguments, message",
  [
    (("toy", "--shards=3"), "--shards goes with --from=PATH"),
    (("toy", "--skip_bad"), "--skip_bad goes with --from=PATH"),
    (("toy", "--unlabelled"), "--unlabelled goes with --from=PATH"),
    (
      ("toy", "--unlabelled", f"--from={__file__}"),
      "must be a folder of images",
    ),
    (
      ("toy", "--unlabelled", "--from=.", "--class_names=x"),
      "without --class_names and --image_root",
    ),
    (("digits", "--from=photos"), "'digits' is built in; give what is made"),
    (("toy", "--from=/nowhere"), "--from=/nowhere does not exist."),
    (("toy", "--from=~/no/where"), f"--from={HOME}/no/where does not exist."),
    (("toy", "--from=photos", "--workers=0"), "workers"),
  ],
)
def test_bad_flags_of_making_are_sentences(arguments, message, tmp_path):
  run = _run(*arguments, f"--data_dir={tmp_path}")
  assert run.returncode == 1
  assert run.stderr.startswith("error: ") and message in run.stderr


def test_a_tokenizer_is_learnt_and_reads_back(tmp_path):
  captions = tmp_path / "captions.txt"
  captions.write_text("a red cat\na blue cat\n" * 20)
  output = tmp_path / "tokenizer"
  run = _run(
    "tokenizer",
    f"--from={captions}",
    f"--output={output}",
    "--vocab_size=520",
    "--length=8",
  )
  assert run.returncode == 0, run.stderr
  assert "520 pieces and length 8" in run.stdout
  assert f"--config.train.tokenizer={output}" in run.stdout
  assert vit_jax.load_tokenizer(output)(["a cat"]).shape == (1, 8)


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    (["tokenizer", "--output=here"], "Name the captions"),
    (["cifar10", "--vocab_size=9"], "--vocab_size goes with 'tokenizer'"),
    (["tokenizer", "--images=digits", "--output=x"], "Name the network"),
    (["tokenizer", "--passes=2"], "--passes goes with --images"),
  ],
)
def test_bad_flags_of_tokenizers_are_sentences(arguments, message):
  run = _run(*arguments)
  assert run.returncode == 1
  assert message in run.stderr


def test_no_tokenizer_is_written_over(tmp_path):
  taken = tmp_path / "tokens.npz"
  taken.write_bytes(b"mine")
  run = _run(
    "tokenizer", "--images=digits", "--checkpoint=x", f"--output={taken}"
  )
  assert run.returncode == 1 and f"{taken} is there already" in run.stderr
  assert taken.read_bytes() == b"mine"


@pytest.mark.slow
def test_a_tokenizer_of_patches_names_the_run_that_learns_from_it(tmp_path):
  _fill(tmp_path / "photos")
  output = tmp_path / "tokens.npz"
  run = _run(
    *("tokenizer", "--images=folder:labels=none", "--split=test"),
    *(f"--data_dir={tmp_path}/photos", f"--output={output}", "--tokens=2"),
    f"--checkpoint={GOLDEN / 'huggingface_vit'}",
  )
  assert run.returncode == 0, run.stderr
  command = next(x for x in run.stdout.splitlines() if "vit_jax.train" in x)
  assert shlex.split(command) == [
    *("python", "-m", "vit_jax.train"),
    f"--config=configs/beit.py:tokenizer={output}",
    *("--config.train.dataset=folder:labels=none", "--config.evals={}"),
    "--config.train.split=test",
    *(f"--config.data_dir={tmp_path}/photos", "--workdir=runs/beit"),
  ]


@pytest.mark.parametrize("has_label", [True, False])
def test_captions_may_lack_beside_classes(has_label, tmp_path):
  datasets = pytest.importorskip("datasets")
  columns = {
    "image": [{"bytes": pictures.png(i), "path": None} for i in range(4)],
    "title": ["one", None, "three", " "],
  }
  kinds = {"image": datasets.Image(), "title": datasets.Value("string")}
  if has_label:
    columns["label"] = [0, 1, 0, 1]
    kinds["label"] = datasets.ClassLabel(names=["ant", "bee"])
  datasets.Dataset.from_dict(
    columns, features=datasets.Features(kinds)
  ).save_to_disk(tmp_path / "d")
  run = _run(f"datasets:{tmp_path}/d", "--check")
  says = "2 of the examples cannot be used: record 1 of datasets:"
  assert says in run.stderr
  assert run.returncode == (0 if has_label else 1)
  if has_label:
    assert "is ready: 4 images in 2 classes." in run.stdout
    assert "Captions are left out: 2 of" in run.stderr
