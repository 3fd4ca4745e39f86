import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow_datasets as tfds
from PIL import Image

from vit_jax.data import sources, tfds_prepare
from vit_jax.errors import UserError


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

  line = tfds_prepare.prepare("tiny_pictures", str(tmp_path))
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
  line = tfds_prepare.prepare("tiny_pictures:1.0.0", str(tmp_path))
  assert line.endswith("as tfrecord: train 9.")
  assert list(tmp_path.rglob("*train*.offsets.npy"))


def test_unknown_dataset_names_near_ones(tmp_path):
  with pytest.raises(UserError, match="no dataset 'tiny_picture'. Near names:"):
    tfds_prepare.prepare("tiny_picture", str(tmp_path))


def test_unknown_version_is_a_sentence(tmp_path):
  with pytest.raises(UserError, match="at version 9.9.9, only: 1.0.0"):
    tfds_prepare.prepare("tiny_pictures:9.9.9", str(tmp_path))


def test_files_to_fetch_by_hand_are_asked_for(tmp_path):
  with pytest.raises(UserError) as error:
    tfds_prepare.prepare("fetched_by_hand", str(tmp_path))
  message = str(error.value)
  assert f"put into {tmp_path}/downloads/manual" in message
  assert message.endswith("Ask the authors for pictures.zip.")


def test_failed_preparation_is_a_sentence_and_leaves_nothing(tmp_path):
  with pytest.raises(UserError, match="ConnectionError: .*no route to host"):
    tfds_prepare.prepare("failing", str(tmp_path))
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
