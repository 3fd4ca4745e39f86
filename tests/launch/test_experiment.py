"""The experiment that is taken along, and its commit."""

import os
import subprocess
import sys

import pytest

from launch import experiment
from launch.experiment import Experiment
from tests.git import git
from vit_jax.errors import UserError

CONFIG = "--config=configs/quickstart.py:smoke"


def test_the_command_is_that_of_train():
  taken = Experiment("a.py", ":x,y=1", ("--config.seed=1",), "gs://b/run")
  assert taken.command("python", "configs/a.py") == [
    *("python", "-m", "vit_jax.train"),
    "--config=configs/a.py:x,y=1",
    "--config.seed=1",
    "--workdir=gs://b/run",
  ]


def test_words_of_the_config_are_taken_in_their_order():
  words = ["--nodes=2", "--config.b=1", "--config", "f.py", "-config.a=x y="]
  words += ["--configuration=3", "--workdir=w"]
  assert experiment._config_words(words) == [
    "--config=f.py",
    "--config.b=1",
    "--config.a=x y=",
  ]


@pytest.mark.parametrize(
  ("words", "said"),
  [
    ([CONFIG, "--config.seed", "3"], "--config.seed=VALUE"),
    ([CONFIG, "--noconfig.evals"], "--noconfig.evals=VALUE"),
    ([CONFIG, CONFIG], "Give one --config"),
    ([], "Give one --config"),
  ],
)
def test_words_that_cannot_be_taken_are_explained(words, said):
  with pytest.raises(UserError, match=said):
    experiment._config_words(words)


@pytest.mark.parametrize(
  ("launcher", "same_environment"),
  [
    (["launch.slurm", "--name=a", "--cpus_per_node=1", "--time=60"], True),
    (["launch.local"], True),
    (["launch.gke", "--name=a", "--tpu=v5e:4x4", "--image=a/b"], False),
    (
      ["launch.cloud_tpu", "--name=a", "--zone=z"]
      + ["--accelerator_type=v5litepod-16"],
      False,
    ),
  ],
  ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_tracker_whose_package_is_missing_is_refused_where_it_would_be(
  tmp_path, launcher, same_environment
):
  """GKE and Cloud TPU install it, and need it not here."""
  (tmp_path / "with_tracker.py").write_text(
    "from vit_jax import registry\n"
    "from vit_jax.rundir.trackers.contract import TrackerKind\n"
    "kind = TrackerKind('not_there', start=None)\n"
    "registry.TRACKERS.register('toy', kind)\n"
  )
  outcome = subprocess.run(
    [sys.executable, "-m", *launcher, CONFIG, "--workdir=gs://b/run"]
    + ["--config.extensions=('with_tracker',)", "--config.log.to=toy"]
    + ["--dry_run"],
    cwd=experiment.REPO,
    env={**os.environ, "PYTHONPATH": f"{experiment.REPO}:{tmp_path}"},
    capture_output=True,
    text=True,
  )
  assert outcome.returncode == (1 if same_environment else 0), outcome.stderr
  if same_environment:
    assert "config.log.to = 'toy' needs the package not_there" in outcome.stderr
  else:
    assert "not_there" in outcome.stdout


@pytest.fixture
def clone(tmp_path, monkeypatch):
  """A clone of one commit with one config."""
  git(tmp_path, "init", "--quiet")
  (tmp_path / "configs").mkdir()
  (tmp_path / "configs" / "mine.py").write_text("")
  git(tmp_path, "add", ".")
  git(tmp_path, "commit", "--quiet", "--message=first")
  monkeypatch.setattr(experiment, "REPO", tmp_path.resolve())
  monkeypatch.chdir(tmp_path)
  return tmp_path


def experiment_of(path):
  return Experiment(str(path), "", (), "gs://b/run")


def test_what_is_launched_is_the_commit(clone):
  revision = git(clone, "rev-parse", "HEAD")
  assert experiment.commit(allow_changes=False) == revision
  (clone / "untracked.txt").write_text("")
  assert experiment.commit(allow_changes=False) == revision


def test_files_that_differ_from_it_are_named(clone, capsys):
  (clone / "configs" / "mine.py").write_text("changed")
  with pytest.raises(UserError, match="(?s)differ from it.*configs/mine.py"):
    experiment.commit(allow_changes=False)
  revision = git(clone, "rev-parse", "HEAD")
  assert experiment.commit(allow_changes=True) == revision
  assert "configs/mine.py" in capsys.readouterr().err


def test_its_config_must_be_part_of_it(clone, tmp_path_factory):
  revision = git(clone, "rev-parse", "HEAD")
  inside = experiment.config_inside
  assert inside(experiment_of("configs/mine.py"), revision) == "configs/mine.py"
  absolute = clone / "configs" / "mine.py"
  assert inside(experiment_of(absolute), revision) == "configs/mine.py"
  (clone / "new.py").write_text("")
  with pytest.raises(UserError, match="new.py is not part of commit"):
    inside(experiment_of("new.py"), revision)
  outside = tmp_path_factory.mktemp("elsewhere") / "other.py"
  outside.write_text("")
  with pytest.raises(UserError, match="is outside of"):
    inside(experiment_of(outside), None)


def test_the_archive_holds_the_commit_and_nothing_else(clone):
  (clone / "configs" / "mine.py").write_text("changed")
  command = experiment.archive(git(clone, "rev-parse", "HEAD"), "a.tar.gz")
  subprocess.run(command.words, check=True)
  names = subprocess.run(
    ["tar", "-tzf", "a.tar.gz"], check=True, capture_output=True, text=True
  ).stdout.split()
  assert names == ["configs/", "configs/mine.py"]


def test_without_a_clone_there_is_no_commit(tmp_path, monkeypatch):
  monkeypatch.setattr(experiment, "REPO", tmp_path)
  monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
  with pytest.raises(UserError, match="must be a clone"):
    experiment.commit(allow_changes=False)
