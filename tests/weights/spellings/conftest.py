"""Copies of the fixtures, to be changed."""

import shutil

import pytest

from tests.weights.published import folder


@pytest.fixture
def copied(tmp_path):
  """A function that copies a fixture by its name."""
  return lambda name: shutil.copytree(folder(name), tmp_path / name)
