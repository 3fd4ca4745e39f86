"""What the tests of launch/ share."""

import pathlib
import shutil
import subprocess
import sys

import pytest

from launch.experiment import Experiment

# Names and values that a script could take apart.
ODD = (
  "--config.data_dir=/data/it's $HOME",
  '--config.train.split=train[:99%] "x" `id` $(id)',
  "--config.train.preprocess=decode|flip_lr;*?~ \\ \\\\ \t!#&<>{}",
  "--config.name=\n--second line ä=",
  "--config.empty=",
)


@pytest.fixture
def taken() -> Experiment:
  """An experiment of plain words."""
  return Experiment(
    "configs/quickstart.py", ":smoke", ("--config.seed=3",), "runs/first"
  )


@pytest.fixture(scope="session")
def shellcheck():
  """Fails on anything that shellcheck finds in a script's text."""
  beside = pathlib.Path(sys.executable).with_name("shellcheck")
  program = str(beside) if beside.exists() else shutil.which("shellcheck")
  if not program:
    pytest.skip("shellcheck is not installed; the dev extra brings it")

  def check(script: str) -> None:
    outcome = subprocess.run(
      [program, "--shell=bash", "-"],
      input=script,
      capture_output=True,
      text=True,
    )
    assert outcome.returncode == 0, outcome.stdout

  return check
