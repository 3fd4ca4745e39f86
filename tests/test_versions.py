"""The commit that a run's numbers depend on."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from tests.git import git
from vit_jax import versions


@pytest.fixture
def package(tmp_path):
  """The package's files by themselves, as they are in an archive."""
  source = pathlib.Path(versions.__file__).parent
  shutil.copytree(
    source,
    tmp_path / "vit_jax",
    ignore=shutil.ignore_patterns("__pycache__"),
  )
  return tmp_path


def commit_of(package, **variables):
  """What the package says when it is imported there."""
  inherited = {k: v for k, v in os.environ.items() if k != "VIT_JAX_COMMIT"}
  run = subprocess.run(
    [
      sys.executable,
      "-c",
      "from vit_jax import versions as v; print(v.commit())",
    ],
    cwd=package,
    env=inherited | {"PYTHONPATH": str(package)} | variables,
    check=True,
    stdout=subprocess.PIPE,
    text=True,
  )
  return run.stdout.strip()


def test_files_without_a_history_have_the_commit_that_the_launcher_says(
  package,
):
  assert commit_of(package) == ""
  assert commit_of(package, VIT_JAX_COMMIT="0123456789") == "0123456789"


def test_a_clone_knows_its_commit_better_than_the_environment(package):
  git(package, "init", "--quiet")
  git(package, "add", ".")
  git(package, "commit", "--quiet", "--message=first")
  revision = git(package, "rev-parse", "HEAD")
  found = commit_of(package, VIT_JAX_COMMIT="another")
  assert len(found) >= 7 and revision.startswith(found)
