"""docs/notebooks: they run on real images, and are committed clean."""

import os
import pathlib
import shutil

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

FOLDER = pathlib.Path(__file__).parents[2] / "docs" / "notebooks"
# In the order of the documentation: the first one trains the network that two
# others start from, and would train by themselves.
NAMES = (
  "quickstart",
  "finetune_own_images",
  "features_and_search",
  "look_inside",
)
# Settings that make other tests quick to compile and slow to run.
COMPILATION = (
  "XLA_FLAGS",
  "JAX_NUM_CPU_DEVICES",
  "JAX_COMPILATION_CACHE_DIR",
)


def read(name: str) -> "nbformat.NotebookNode":
  return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def code_of(name: str) -> list["nbformat.NotebookNode"]:
  return [cell for cell in read(name).cells if cell.cell_type == "code"]


def test_every_notebook_is_tested():
  assert {path.stem for path in FOLDER.iterdir()} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_it_is_committed_without_outputs(name):
  for cell in code_of(name):
    assert not cell.outputs and cell.execution_count is None


@pytest.mark.parametrize("name", NAMES)
def test_it_installs_what_is_missing_and_ends_by_checking_itself(name):
  first, *_, last = code_of(name)
  assert 'find_spec("vit_jax") is None:' in first.source
  assert "\n  %pip install" in first.source
  assert "assert " in last.source


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> pathlib.Path:
  """A folder that all notebooks are run in."""
  return tmp_path_factory.mktemp("notebooks")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_it_runs(place, name):
  shutil.copy(FOLDER / f"{name}.ipynb", place)
  environment = {
    key: value for key, value in os.environ.items() if key not in COMPILATION
  }
  environment["PYTHONPATH"] = str(FOLDER.parents[1])
  environment["IPYTHONDIR"] = str(place / "ipython")
  client = nbclient.NotebookClient(
    read(name), timeout=900, resources={"metadata": {"path": str(place)}}
  )
  client.execute(env=environment)
