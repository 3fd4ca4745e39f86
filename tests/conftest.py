"""Settings and fixtures of every test.

The settings are environment variables, so that commands which tests start
have them too; they must stand before jax or TensorFlow is imported.
"""

import os
import pathlib
import tempfile

import pytest

_CACHE = tempfile.TemporaryDirectory(prefix="vit_jax-tests-")
_SETTINGS = {
  "JAX_PLATFORMS": "cpu",
  # Every test may build a mesh of up to four devices.
  "JAX_NUM_CPU_DEVICES": "4",
  # Broadcasting over a forgotten axis is an error.
  "JAX_NUMPY_RANK_PROMOTION": "raise",
  "TF_CPP_MIN_LOG_LEVEL": "3",
  # Tests compile much and run little: compile quickly, and each thing once.
  "XLA_FLAGS": "--xla_backend_optimization_level=0",
  "JAX_COMPILATION_CACHE_DIR": _CACHE.name,
  "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
}
for _name, _value in _SETTINGS.items():
  os.environ.setdefault(_name, _value)

REPO = pathlib.Path(__file__).parents[1]


@pytest.fixture(scope="session")
def repo() -> pathlib.Path:
  """The root of the repository."""
  return REPO


@pytest.fixture(scope="session")
def shared() -> pathlib.Path:
  """The folder of golden files and sample data; skips without it.

  It lies beside the repository, or where VIT_JAX_SHARED says.
  """
  path = os.environ.get("VIT_JAX_SHARED") or REPO.parent / "shared"
  path = pathlib.Path(path)
  if not path.is_dir():
    pytest.skip(f"{path} is not there (VIT_JAX_SHARED names another folder)")
  return path


def pytest_addoption(parser: pytest.Parser) -> None:
  parser.addoption(
    "--exhaustive",
    action="store_true",
    help="also run the tests that take minutes each",
  )


def pytest_collection_modifyitems(
  config: pytest.Config, items: list[pytest.Item]
) -> None:
  """Leaves out the exhaustive tests unless they are asked for."""
  if config.getoption("--exhaustive"):
    return
  left_out = [item for item in items if item.get_closest_marker("exhaustive")]
  config.hook.pytest_deselected(items=left_out)
  items[:] = [item for item in items if item not in left_out]
