"""The command that lists near-duplicates, and training without them."""

import io
import json
import os
import re
import shlex
import subprocess
import sys
import tarfile

import numpy as np
import pytest
from PIL import Image

from vit_jax.config import schema
from vit_jax.data import facts
from vit_jax.errors import UserError


def run(repo, *arguments, cwd=None):
  return subprocess.run(
    [sys.executable, "-m", "vit_jax.deduplicate", *map(str, arguments)],
    capture_output=True,
    text=True,
    cwd=cwd or repo,
    env={**os.environ, "PYTHONPATH": str(repo)},
  )


def picture(seed):
  pixels = np.random.default_rng(seed).integers(0, 256, (32, 32, 3), np.uint8)
  return Image.fromarray(pixels).resize((96, 64), Image.Resampling.BICUBIC)


@pytest.fixture
def photos(tmp_path):
  """An image folder; 3.jpg and 5.jpg of train are like a.png of test."""
  for number in range(12):
    path = tmp_path / f"photos/train/{'xy'[number % 2]}/{number}.jpg"
    path.parent.mkdir(parents=True, exist_ok=True)
    picture(3 if number == 5 else number).save(path, quality=40 + number)
  (tmp_path / "photos/train/x/blank.png").write_bytes(
    (tmp_path / "photos/train/x/0.jpg").read_bytes()[:90]
  )
  for name, seed in {"a": 3, "b": 100}.items():
    path = tmp_path / f"photos/test/{'xy'[name == 'b']}/{name}.png"
    path.parent.mkdir(parents=True)
    picture(seed).resize((48, 48)).save(path)
  return tmp_path / "photos"


@pytest.mark.parametrize(
  ("arguments", "sentence"),
  [
    (["digits"], "Name a training set and one test set or more"),
    (["digits", "digits@test"], "--output=DIR"),
    (["digits", "digits@te[st", "--output=x"], "is not a split string"),
    (["digits@test", "digits", "--output=x"], "digits@test is named twice"),
    (["di-gits", "digits", "--output=x"], "is not the name of a dataset"),
    (["./no", "digits", "--output=x"], "./no@train: The image folder no"),
    (["digits", "digits@test", "--output=gs://a/b"], "is in a bucket"),
  ],
)
def test_bad_input_gets_a_sentence_and_exit_code_1(
  repo, tmp_path, arguments, sentence
):
  result = run(repo, *arguments, cwd=tmp_path)
  assert result.returncode == 1
  assert "Traceback" not in result.stderr
  assert sentence in result.stderr
  assert not list(tmp_path.iterdir())


def test_pairs_are_listed_and_can_be_left_out_of_training(
  repo, tmp_path, photos
):
  output = tmp_path / "near"
  result = run(repo, f"{photos}@train", photos, f"--output={output}")
  assert result.returncode == 0, result.stderr
  assert "1 of 2 images are near 2 of" in result.stdout
  assert "0 images of one colour and 1 that cannot be read" in result.stdout
  assert f"--config.train.exclude={output}/exclude.json" in result.stdout

  lines = (output / "pairs.jsonl").read_text().splitlines()
  pairs = [json.loads(line) for line in lines]
  assert {os.path.basename(pair["train"]) for pair in pairs} == {
    "3.jpg",
    "5.jpg",
  }
  for pair in pairs:
    assert pair["test"] == f"{photos}/test/x/a.png"
    assert pair["test_set"] == f"{photos}@test"
    assert 0 <= pair["distance"] <= 20 and pair["mirrored"] is False
  summary = json.loads((output / "summary.json").read_text())
  assert summary["pairs"] == 2
  assert summary["train"]["images"] == 13 and summary["train"]["near"] == 2
  assert summary["tests"][0]["near"] == 1
  (damaged,) = summary["train"]["unreadable_images"]
  assert os.path.dirname(damaged) == f"{photos}/train/x"
  assert f"1 that cannot be read ({damaged})" in result.stdout
  assert summary["tests"][0]["unreadable_images"] == []
  with pytest.raises(OSError):
    Image.open(damaged).load()

  config = schema.Config(data_dir=str(photos), total_steps=1)
  exclude = str(output / "exclude.json")
  train = schema.Train(dataset="folder", max_bad_examples=1, exclude=exclude)
  source = facts.open_data(config.model_copy(update={"train": train}))
  names = map(os.path.basename, source.names(np.arange(source.num_examples)))
  left = {"blank.png", *(f"{i}.jpg" for i in range(12) if i not in (3, 5))}
  assert sorted(names) == sorted(left)

  train = train.model_copy(update={"split": "train[:50%]"})
  with pytest.raises(UserError, match="config.train.exclude = .* other data"):
    facts.open_data(config.model_copy(update={"train": train}))


def test_keys_of_the_training_are_those_of_its_list(repo, tmp_path, photos):
  datasets = pytest.importorskip("datasets")

  def images(seeds):
    content = []
    for seed in seeds:
      file = io.BytesIO()
      picture(seed).save(file, "PNG")
      content.append({"bytes": file.getvalue(), "path": None})
    return content

  classes = datasets.ClassLabel(names=["a", "b"])
  features = datasets.Features(
    image=datasets.Image(), inner=datasets.Image(), label=classes, fine=classes
  )
  features["title"] = datasets.Value("string")
  content = {
    "image": images(range(200, 204)),
    "inner": images([300, 3, 301, 302]),  # 3 is in the test set.
    "label": [0, 0, 1, 1],
    "fine": [0, 1, 0, 1],
    "title": ["p", "q", "r", "s"],
  }
  datasets.Dataset.from_dict(content, features=features).save_to_disk(
    tmp_path / "saved"
  )
  words = [f"datasets:{tmp_path}/saved", f"{photos}@test"]
  words += ["generated:classes=2,size=16,examples=8"]
  train = schema.Train(
    dataset=words[0],
    image_key="inner",
    label_key="fine",
    text_key="title",
    exclude="unset",
  )
  config = schema.Config(data_dir=str(tmp_path), total_steps=1)

  def left(output):
    exclude = train.model_copy(update={"exclude": f"{output}/exclude.json"})
    return facts.open_data(config.model_copy(update={"train": exclude}))

  output = tmp_path / "near"
  plain = run(repo, *words, f"--output={output}")
  assert plain.returncode == 0, plain.stderr
  assert not (output / "pairs.jsonl").read_text()
  with pytest.raises(UserError, match="same --image_key, --label_key and"):
    left(output)
  keys = ["--image_key=inner", "--label_key=fine", "--text_key=title"]
  result = run(repo, *words, *keys, f"--output={output}")
  assert result.returncode == 0, result.stderr
  (line,) = (output / "pairs.jsonl").read_text().splitlines()
  assert json.loads(line)["train_id"] == 1
  assert left(output).read(np.arange(3))["label"].tolist() == [0, 0, 1]
  wrong = run(repo, *words, "--image_key=outer", f"--output={output}")
  assert wrong.returncode == 1
  assert "image_key = 'outer' is not a column" in wrong.stderr


def test_a_regression_leaves_images_out_too(repo, tmp_path, photos):
  tables = []
  for split in ("train", "test"):
    files = sorted((photos / split).glob("*/*.*"))
    names = [file.relative_to(tmp_path) for file in files]
    lines = [f"{name},{number}.5" for number, name in enumerate(names)]
    tables.append(tmp_path / f"{split}.csv")
    tables[-1].write_text("\n".join(["path,label", *lines]))
  words = [f"csv:{table}@all" for table in tables]
  output = tmp_path / "near"
  result = run(repo, *words, f"--output={output}", "--regression")
  assert result.returncode == 0, result.stderr
  assert "1 of 2 images are near 2 of" in result.stdout
  config = schema.Config(
    data_dir=str(photos),
    total_steps=1,
    objective=schema.Supervised(loss="mse"),
    train=schema.Train(
      dataset=f"csv:{tables[0]}",
      split="all",
      max_bad_examples=1,
      exclude=str(output / "exclude.json"),
    ),
  )
  assert facts.open_data(config).num_examples == 13 - 2


def test_images_without_classes_are_compared(repo, tmp_path, photos):
  mine = tmp_path / "mine"
  (mine / "2019/01").mkdir(parents=True)
  picture(3).save(mine / "2019/01/copy.jpg")
  picture(200).save(mine / "other.jpg")
  output = tmp_path / "near"
  result = run(repo, mine, f"{photos}@test", f"--output={output}")
  assert result.returncode == 0, result.stderr
  (line,) = (output / "pairs.jsonl").read_text().splitlines()
  assert json.loads(line)["train"] == f"{mine}/2019/01/copy.jpg"
  config = schema.Config(data_dir=str(mine), total_steps=1)
  exclude = str(output / "exclude.json")
  train = schema.Train(dataset="folder:labels=none", exclude=exclude)
  source = facts.open_data(config.model_copy(update={"train": train}))
  assert source.names(np.arange(source.num_examples)) == [f"{mine}/other.jpg"]


def test_a_name_that_is_a_folder_is_told_how_to_write_it(
  tmp_path, photos, repo
):
  result = run(repo, "photos@train", "digits", "--output=x", cwd=photos.parent)
  assert result.returncode == 1
  assert "is meant, write ./photos@train." in result.stderr


def test_a_test_set_is_added_without_hashing_again(repo, tmp_path, photos):
  output = tmp_path / "near"
  first = run(repo, photos, f"{photos}@test", f"--output={output}")
  assert first.returncode == 0, first.stderr
  hashes = sorted((output / "hashes").iterdir())
  assert len(hashes) == 2
  times = [file.stat().st_mtime_ns for file in hashes]
  result = run(
    repo,
    *(photos, f"{photos}@test[:1]", f"{photos}@test"),
    *(f"--output={output}", "--max_distance=0"),
  )
  assert result.returncode == 0, result.stderr
  assert [file.stat().st_mtime_ns for file in hashes] == times
  summary = json.loads((output / "summary.json").read_text())
  assert [test["images"] for test in summary["tests"]] == [1, 2]


def test_hashes_are_found_from_any_directory(repo, tmp_path, photos):
  """Those of data that lie elsewhere are not, though they have one name."""
  tar_files = {"mine": (1, 2), "yours": (3, 4)}
  for name, seeds in tar_files.items():
    (tmp_path / name).mkdir()
    with tarfile.open(tmp_path / name / "a.tar", "w") as archive:
      for seed in seeds:
        content = io.BytesIO()
        picture(seed).save(content, "PNG", compress_level=0)
        member = tarfile.TarInfo(f"{seed - seeds[0]}.png")
        member.size = len(content.getvalue())
        content.seek(0)
        archive.addfile(member, content)
  output = tmp_path / "near"

  def stamps(cwd, *words):
    result = run(repo, *words, f"--output={output}", cwd=tmp_path / cwd)
    assert result.returncode == 0, result.stderr
    found = (output / "hashes").iterdir()
    return {path.name: path.stat().st_mtime_ns for path in found}

  absolute = f"webdataset:{tmp_path}/mine/a.tar@train"
  words = ["generated:classes=2,size=16,examples=8@train", absolute]
  first = stamps("mine", *words)
  assert len(first) == 2
  assert stamps("yours", *words) == first
  relative = ["webdataset:a.tar@train", words[0]]
  second = stamps("mine", *relative)
  third = stamps("yours", *relative)
  assert len(second) == 3 and len(third) == 4 and third.items() > second.items()


@pytest.mark.slow
def test_commands_of_the_page_run_one_after_the_other(repo, photos, tmp_path):
  page = (repo / "docs/deduplication.md").read_text(encoding="utf-8")
  blocks = re.findall(r"```bash\n(.*?)```", page, re.DOTALL)
  commands = "".join(blocks).splitlines()
  assert [command.split()[2] for command in commands] == [
    "vit_jax.deduplicate",
    "vit_jax.train",
  ]
  (photos / "train/x/blank.png").unlink()
  for command, more in zip(commands, ([], ["--dry_run"]), strict=True):
    result = subprocess.run(
      [sys.executable, *shlex.split(command)[1:], *more],
      capture_output=True,
      text=True,
      cwd=tmp_path,
      env={**os.environ, "PYTHONPATH": str(repo)},
    )
    assert result.returncode == 0, result.stderr
  assert '"exclude": "near/exclude.json"' in result.stdout


def test_images_without_captions_are_compared(repo, tmp_path):
  for split, captions in {"train": ["", "a", ""], "test": ["", "b"]}.items():
    (tmp_path / split).mkdir()
    rows = ["file_name,caption"]
    for seed, caption in enumerate(captions):
      picture(seed).save(tmp_path / split / f"{seed}.png")
      rows.append(f"{seed}.png,{caption}")
    rows.append(",no image")
    (tmp_path / split / "captions.csv").write_text("\n".join(rows))
  near = tmp_path / "near"
  done = run(
    repo,
    "captions@train",
    "captions@test",
    f"--data_dir={tmp_path}",
    f"--output={near}",
  )
  assert done.returncode == 0, done.stderr
  pairs = [json.loads(x) for x in (near / "pairs.jsonl").open()]
  names = [os.path.basename(pair["train"]) for pair in pairs]
  assert sorted(names) == ["0.png", "1.png"]
  summary = json.loads((near / "summary.json").read_text())
  assert summary["train"]["unreadable"] == 1
