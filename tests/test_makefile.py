"""What `make` installs with."""

import os
import shutil
import subprocess

import pytest

# Programs that note their words; uv fails on demand.
_NOTES = '#!/bin/sh\necho "$(basename "$0") $*" >> "{calls}"\nexit {code}\n'


@pytest.fixture
def make(repo, tmp_path):
  """Installs with stand-ins; returns the words of the programs called."""

  def run(uv_code=None):
    calls, folder = tmp_path / "calls", tmp_path / "bin"
    python = tmp_path / "venv" / "bin" / "python"
    programs = {python: 0} | (
      {} if uv_code is None else {folder / "uv": uv_code}
    )
    for program, code in programs.items():
      program.parent.mkdir(parents=True, exist_ok=True)
      program.write_text(_NOTES.format(calls=calls, code=code))
      program.chmod(0o755)
    # Without any uv of this machine's.
    places = [
      place
      for place in os.environ["PATH"].split(os.pathsep)
      if not os.path.exists(os.path.join(place, "uv"))
    ]
    subprocess.run(
      ["make", f"VENV={tmp_path}/venv", f"{tmp_path}/venv/.installed"],
      cwd=repo,
      env={**os.environ, "PATH": os.pathsep.join([str(folder), *places])},
      check=True,
      capture_output=True,
    )
    return calls.read_text().splitlines()

  if not shutil.which("make"):
    pytest.skip("make is not installed")
  return run


PIP = [
  "python -m pip install --quiet --requirement requirements.txt",
  "python -m pip install --quiet --no-deps --no-build-isolation --editable .",
]


def test_pip_installs_where_there_is_no_uv(make):
  assert make() == PIP


def test_uv_installs_where_it_is_present(make):
  calls = make(uv_code=0)
  assert [call.split()[:3] for call in calls] == [["uv", "pip", "install"]] * 2
  assert calls[0].endswith("--requirement requirements.txt")
  assert calls[1].endswith("--editable .")


def test_pip_installs_where_uv_cannot(make):
  calls = make(uv_code=1)
  assert [call for call in calls if call.startswith("python")] == PIP
