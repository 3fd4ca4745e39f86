"""What is checked before jax or data is touched."""

import subprocess
import sys

import pytest

from tests import experiments
from vit_jax import checks, registry
from vit_jax.errors import UserError
from vit_jax.rundir.trackers.contract import TrackerKind


@pytest.fixture
def tracked(monkeypatch):
  """A config whose tracker needs the package `not_here`."""
  kind = TrackerKind(package="not_here", start=lambda info, memory: None)
  entries = {**registry.TRACKERS._entries, "far": kind}
  monkeypatch.setattr(registry.TRACKERS, "_entries", entries)
  return experiments.config(log__to="far")


def test_a_missing_package_of_a_tracker_is_named(tracked):
  with pytest.raises(UserError) as error:
    checks.check_trackers(tracked)
  assert str(error.value) == (
    "config.log.to = 'far' needs the package not_here, which is missing: run"
    " `pip install not_here`, or leave it out."
  )


def test_a_directory_of_a_packages_name_is_no_package(
  tracked, tmp_path, monkeypatch
):
  """wandb keeps its runs in a directory `wandb`."""
  (tmp_path / "not_here").mkdir()
  monkeypatch.syspath_prepend(tmp_path)
  with pytest.raises(UserError, match="pip install not_here"):
    checks.check_trackers(tracked)
  (tmp_path / "not_here" / "__init__.py").touch()
  checks.check_trackers(tracked)


@pytest.mark.parametrize("flag", ["--dry_run", "--workdir=never_made"])
def test_train_answers_an_unknown_tracker_with_a_sentence(repo, flag):
  command = [sys.executable, "-m", "vit_jax.train", flag]
  command += ["--config=configs/quickstart.py", "--config.log.to=wadb"]
  result = subprocess.run(command, capture_output=True, text=True, cwd=repo)
  assert result.returncode == 1
  assert result.stderr == (
    "error: config.log.to = 'wadb' is not known. Did you mean 'wandb'? Known:"
    " wandb, mlflow, trackio.\n"
  )
