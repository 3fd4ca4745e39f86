"""The commands of docs/data.md run, or name settings that exist."""

import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

from tests.data.building import pictures
from vit_jax.config import defaults, resolve

REPO = pathlib.Path(__file__).parents[1]
PAGE = (REPO / "docs/data.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = [
  line
  for block in BLOCKS
  for line in block.splitlines()
  if line.startswith("python -m vit_jax.")
]
MAKING = [c for c in COMMANDS if "--from=" in c]
TRAINING = [c for c in COMMANDS if "vit_jax.train" in c]


@pytest.fixture
def place(tmp_path):
  """What the page's commands name: photos, synset_tars, lists, images."""
  pictures.folder(tmp_path / "photos")
  pictures.tars(tmp_path / "synset_tars", count=9)
  (tmp_path / "synsets.txt").write_text("cat\nbee\nant\n")
  (tmp_path / "classes.txt").write_text("cat\nbee\nant\n")
  (tmp_path / "images").mkdir()
  values = []
  for i in range(6):
    (tmp_path / f"images/{i}.png").write_bytes(pictures.png(i))
    values.append({"path": f"{i}.png", "labels": [i % 3]})
  pictures.lines(tmp_path / "lists/train.jsonl", *values)
  pictures.lines(tmp_path / "lists/validation.jsonl", *values)
  return tmp_path


@pytest.mark.slow
def test_commands_that_make_datasets_run(place):
  assert len(MAKING) >= 4
  for command in MAKING:
    run = subprocess.run(
      [sys.executable, *shlex.split(command)[1:], "--workers=1"],
      capture_output=True,
      text=True,
      cwd=place,
      env={**os.environ, "PYTHONPATH": str(REPO)},
    )
    assert run.returncode == 0, run.stderr
    assert "is ready in" in run.stdout


@pytest.mark.parametrize("command", TRAINING)
def test_settings_of_training_commands_exist(command):
  known = resolve.flatten(defaults.default_config().to_dict(), "config.")
  known |= resolve.flatten(
    defaults.default_eval(type="classification").to_dict(), "config.evals.NAME."
  )
  words = [word for word in shlex.split(command) if "--config." in word]
  for word in words:
    key = word.removeprefix("--").partition("=")[0]
    key = re.sub(r"^config\.evals\.\w+", "config.evals.NAME", key)
    assert key in known, f"{word} in {command}"


def test_files_that_the_page_names_are_there():
  for path in re.findall(r"`((?:configs|tests)/\w[\w/]*\.py)", PAGE):
    assert (REPO / path).is_file(), path
