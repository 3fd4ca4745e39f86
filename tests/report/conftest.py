"""A finished run, as tests of the report want it."""

import pathlib

import pytest

from tests.report import workdirs


@pytest.fixture
def finished(tmp_path: pathlib.Path) -> pathlib.Path:
  """A finished run with every piece there is."""
  workdir = workdirs.write_run(
    tmp_path / "finished", records=workdirs.learning_records()
  )
  workdirs.write_outcomes(workdir)
  return workdir
