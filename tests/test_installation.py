"""The other package called vit_jax is noticed, whichever came last."""

import pathlib
import shutil
import subprocess
import sys

import pytest

PACKAGE = pathlib.Path(__file__).parents[1] / "vit_jax"


def import_in(folder: pathlib.Path, module: str) -> str:
  """What importing `module` with `folder` as sys.path's first entry prints."""
  code = f"import sys; sys.path.insert(0, {str(folder)!r}); import {module}"
  run = subprocess.run(
    [sys.executable, "-c", code], capture_output=True, text=True, cwd=folder
  )
  return run.stderr


@pytest.fixture
def site(tmp_path):
  """A folder of installed packages with a few files of ours in it."""
  (tmp_path / "vit_jax").mkdir()
  imported = ("absent_tpu", "installation", "large_pages")
  for name in ("__init__", "errors", *imported):
    shutil.copy(PACKAGE / f"{name}.py", tmp_path / "vit_jax")
  return tmp_path


def test_ours_alone_imports(site):
  assert import_in(site, "vit_jax.errors") == ""


def test_ours_installed_over_the_other_says_so(site):
  (site / "vit_jax" / "models_vit.py").touch()
  message = import_in(site, "vit_jax")
  assert "google-research/vision_transformer" in message
  assert "pip uninstall vit_jax vit-jax-framework" in message


def test_the_other_installed_over_ours_says_so(site):
  (site / "vit_jax" / "__init__.py").write_text("")
  message = import_in(site, "vit_jax.errors")
  assert "google-research/vision_transformer" in message
