"""The predict command: what it says of which images, and how it fails."""

import csv
import io
import itertools
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

import vit_jax
from tests import experiments
from vit_jax import predict
from vit_jax.data import folder, image_files
from vit_jax.errors import UserError
from vit_jax.train import train


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
  """An image folder of two classes: JPEGs, one of them turned, and PNGs."""
  root = tmp_path_factory.mktemp("photos")
  rng = np.random.default_rng(0)
  turned = Image.Exif()
  turned[0x0112] = 8
  classes = ("ant hill", "Bär")
  for split, name in itertools.product(("train", "test"), classes):
    folder = root / split / name
    folder.mkdir(parents=True)
    for number in range(6):
      image = Image.fromarray(rng.integers(0, 256, (12, 16, 3), np.uint8))
      image.save(folder / f"{number}.jpg", exif=turned if number else b"")
    image.convert("L").save(folder / "grey.png")
  return root


@pytest.fixture(scope="module")
def workdir(photos, tmp_path_factory):
  """A finished run on that folder, with a sigmoid loss and an average."""
  workdir = tmp_path_factory.mktemp("run")
  config = experiments.config(
    total_steps=2,
    train__dataset="folder",
    train__batch_size=8,
    train__preprocess="decode|inception_crop",
    data_dir=str(photos),
    ema_decay=0.5,
    objective__loss="sigmoid",
    evals__test__preprocess="decode|resize_small(scale=1.25)|central_crop",
    evals__test__every_steps=None,
  )
  assert train(config, str(workdir)) == 0
  return workdir


@pytest.fixture
def run(workdir, capsys):
  """Runs the command; gives its exit code, stdout and stderr."""

  def run(*words, **options):
    paths = image_files.find(list(map(str, words)))
    capsys.readouterr()
    code = predict.predict(str(workdir), paths, **options)
    return code, *capsys.readouterr()

  return run


def document(run, *words):
  code, out, err = run(*words, form="json")
  return json.loads(out) | {"code": code, "err": err}


def test_probabilities_equal_those_of_the_runs_own_evaluation(
  run, workdir, photos
):
  source = folder.scan("test", str(photos))
  evaluated = np.load(workdir / "evaluations" / "test" / "2/predictions.npz")
  paths = source.names(evaluated["example_id"])
  predicted = document(run, *paths)
  assert predicted["code"] == 0 and predicted["failed"] == []
  assert predicted["step"] == 2
  assert predicted["activation"] == "sigmoid"
  assert [image["path"] for image in predicted["images"]] == paths
  best = [image["predictions"][0] for image in predicted["images"]]
  assert [row["label"] for row in best] == evaluated["prediction"].tolist()
  np.testing.assert_allclose(
    [row["probability"] for row in best], evaluated["probability"], rtol=1e-6
  )


def test_classes_have_the_names_of_their_folders(run, workdir, photos):
  predicted = document(run, photos / "test")
  assert len(predicted["images"]) == 14
  for image in predicted["images"]:
    rows = image["predictions"]
    assert {row["label"]: row["name"] for row in rows} == {
      0: "Bär",
      1: "ant hill",
    }
    assert rows[0]["probability"] >= rows[1]["probability"]


def test_a_table_names_the_file_and_its_best_classes(run, workdir, photos):
  path = photos / "test" / "Bär" / "0.jpg"
  code, out, err = run(path, top_k=1)
  assert (code, err) == (0, "")
  first, second = out.splitlines()
  assert first == str(path)
  assert second.endswith(("%  Bär", "%  ant hill"))


def test_a_csv_table_has_a_row_for_each_class(run, workdir, photos):
  path = photos / "test" / "Bär" / "0.jpg"
  code, out, err = run(path, form="csv")
  assert (code, err) == (0, "")
  rows = list(csv.DictReader(io.StringIO(out)))
  best = document(run, path)["images"][0]["predictions"]
  assert [(row["path"], int(row["rank"])) for row in rows] == [
    (str(path), 1),
    (str(path), 2),
  ]
  assert [(int(row["label"]), row["name"]) for row in rows] == [
    (one["label"], one["name"]) for one in best
  ]
  assert [float(row["probability"]) for row in rows] == pytest.approx(
    [one["probability"] for one in best], rel=1e-5
  )


def test_classes_can_be_given_other_names(run, photos, tmp_path):
  names = tmp_path / "names.txt"
  names.write_text("bear\nhill\n")
  path = photos / "test" / "Bär" / "0.jpg"
  _, out, _ = run(path, class_names=str(names))
  assert out.count("bear") == out.count("hill") == 1
  names.write_text("bear\n")
  with pytest.raises(UserError, match="has 1 names, and the head of .* has 2"):
    run(path, class_names=str(names))


def test_files_to_names_in_python(run, workdir, photos):
  classify = vit_jax.Classifier(workdir)
  found = classify(photos / "test" / "Bär", top_k=1)
  told = document(run, photos / "test" / "Bär")["images"]
  assert [(one.label, one.name) for (one,) in found] == [
    (image["predictions"][0]["label"], image["predictions"][0]["name"])
    for image in told
  ]
  (best,) = classify([str(photos / "test" / "Bär" / "0.jpg")])
  assert [one.probability for one in best] == pytest.approx(
    [one["probability"] for one in told[0]["predictions"]]
  )


def test_a_file_that_is_no_image_is_an_error_in_python(workdir, tmp_path):
  (tmp_path / "text.jpg").write_text("no image")
  with pytest.raises(UserError, match=r"text.jpg is damaged"):
    vit_jax.Classifier(workdir)(tmp_path)


def test_a_broken_file_is_named_and_the_others_go_on(
  run, workdir, photos, tmp_path
):
  broken = tmp_path / "text.jpg"
  broken.write_text("no image")
  good = photos / "test" / "Bär" / "0.jpg"
  predicted = document(run, broken, good)
  assert predicted["code"] == 1
  assert [image["path"] for image in predicted["images"]] == [str(good)]
  assert [file["path"] for file in predicted["failed"]] == [str(broken)]
  assert predicted["err"] == f"error: {predicted['failed'][0]['problem']}\n"


def test_images_that_fail_all_are_all_named(run, workdir, tmp_path):
  for number in range(3):
    (tmp_path / f"{number}.jpg").write_text("no image")
  code, out, err = run(tmp_path)
  assert (code, out) == (1, "")
  assert len(err.splitlines()) == 3


def test_classes_without_names_have_numbers(run, workdir, photos):
  kept = (workdir / "classes.json").read_text()
  (workdir / "classes.json").write_text("null")
  _, out, _ = run(photos / "test" / "Bär" / "0.jpg")
  (workdir / "classes.json").write_text(kept)
  assert "%  class 0\n" in out and "%  class 1\n" in out


def test_names_cannot_move_the_cursor(run, photos, tmp_path):
  image = (photos / "test" / "Bär" / "0.jpg").read_bytes()
  (tmp_path / "a\n\x1b[2Jb.jpg").write_bytes(image)
  _, out, _ = run(tmp_path)
  assert out.splitlines()[0] == f"{tmp_path}/a\\n\\x1b[2Jb.jpg"


def test_broken_files_and_odd_names_make_no_noise(
  repo, workdir, photos, tmp_path
):
  image = (photos / "test" / "Bär" / "0.jpg").read_bytes()
  (tmp_path / "日本.jpg").write_bytes(image)
  (tmp_path / os.fsdecode(b"\xff.jpg")).write_bytes(image)
  (tmp_path / "cut.jpg").write_bytes(image[:200])
  (tmp_path / "text.jpg").write_text("no image")
  environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
  environment.pop("TF_CPP_MIN_LOG_LEVEL")
  result = command(
    repo,
    f"--checkpoint={workdir}",
    tmp_path,
    capture_output=True,
    env=environment,
  )
  assert result.returncode == 1
  # libjpeg itself may have said a word.
  lines = [line for line in result.stderr.splitlines() if "JPEG" not in line]
  assert [line[:7] for line in lines] == ["error: "] * 2
  assert len(result.stdout.splitlines()) == 6


def command(repo, *words, env=os.environ, **options):
  return subprocess.run(
    [sys.executable, "-m", "vit_jax.predict", *map(str, words)],
    env={**env, "PYTHONPATH": str(repo)},
    text=True,
    **options,
  )


@pytest.mark.parametrize(
  ("words", "sentence"),
  [
    (["a.jpg"], "give --checkpoint=PATH"),
    (["--checkpoint=x"], "No image was named"),
    (["--checkpoint=x", "not_there.jpg"], "not_there.jpg does not exist"),
    (["--checkpoint=not_there", __file__], "not_there does not exist"),
    (["--checkpoint=x", "--top_k=0", __file__], "top_k"),
  ],
)
def test_what_is_missing_is_said_in_a_sentence(repo, words, sentence):
  result = command(repo, *words, capture_output=True)
  assert result.returncode == 1
  assert sentence in result.stderr and "Traceback" not in result.stderr


def test_flags_may_follow_images_and_readers_may_stop_early(
  repo, workdir, photos
):
  read, write = os.pipe()
  os.close(read)
  result = command(
    repo,
    photos,
    "--top_k=1",
    f"--checkpoint={workdir}",
    stdout=write,
    stderr=subprocess.PIPE,
  )
  os.close(write)
  assert result.stderr == ""
