"""Settings and fixtures of every test.

The settings are environment variables, so that commands started by tests
inherit them; they must be set before jax or TensorFlow is imported.
"""

import gc
import grp
import hashlib
import importlib
import importlib.metadata
import os
import pathlib
import pwd
import sys
import tempfile
import time
import types
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import hypothesis
import pytest
from etils import epath

if TYPE_CHECKING:
  from tests.buckets import server

_CACHE = tempfile.TemporaryDirectory(prefix="vit_jax-tests-")
# XLA's older code generator takes two thirds of the time of the newer one. jax
# 0.11 has no such flag, and an unknown one would end the process.
_OLD_GENERATOR = "--xla_cpu_use_fusion_emitters=false" * (
  importlib.metadata.version("jaxlib").startswith("0.10.")
)
_SETTINGS = {
  "JAX_PLATFORMS": "cpu",
  # Every test may build a mesh of up to four devices.
  "JAX_NUM_CPU_DEVICES": "4",
  # Broadcasting over a forgotten axis is an error.
  "JAX_NUMPY_RANK_PROMOTION": "raise",
  "TF_CPP_MIN_LOG_LEVEL": "3",
  # Tests compile much and run little: compile quickly, and each thing once.
  "XLA_FLAGS": f"--xla_backend_optimization_level=0 {_OLD_GENERATOR}",
  "JAX_COMPILATION_CACHE_DIR": _CACHE.name,
  "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
}
for _name, _value in _SETTINGS.items():
  os.environ.setdefault(_name, _value)

# Tracing makes many objects that live on: to look for cycles among them as
# often as by default takes a twentieth of the time.
gc.set_threshold(50_000, 20, 50)

# A busy machine makes no test fail.
hypothesis.settings.register_profile(
  "unhurried",
  parent=hypothesis.settings(),  # Another one where the variable CI is set.
  deadline=None,
  suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("unhurried")

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


@pytest.fixture(scope="session")
def storage() -> Iterator["server.Server"]:
  """Serves a local stand-in for a provider of buckets."""
  from tests.buckets import server

  with server.Server() as storage:
    yield storage


@pytest.fixture
def nobody_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
  """Makes users and groups as nameless as in a container of any user's."""

  def fail(number: int) -> None:
    raise KeyError(f"not found: {number}")

  monkeypatch.setattr(pwd, "getpwuid", fail)
  monkeypatch.setattr(grp, "getgrgid", fail)


@pytest.fixture
def bucket(
  storage: "server.Server",
  monkeypatch: pytest.MonkeyPatch,
  tmp_path: pathlib.Path,
) -> Iterator[epath.Path]:
  """An empty place in a bucket, for this process and for commands.

  What is kept on this machine meanwhile goes to `tmp_path / "here"`.
  """
  from tests.buckets import run, server

  known = importlib.import_module("fsspec.registry")._registry
  with monkeypatch.context() as context:
    for name in ("google.cloud", "google.cloud.storage"):
      context.setitem(sys.modules, name, types.ModuleType(name))
    context.setitem(known, "gcs", None)
    context.setenv("TENSORSTORE_GCS_HTTP_URL", "")
    context.setenv("GOOGLE_AUTH_TOKEN_FOR_TESTING", "")
    here = tmp_path / "here"
    here.mkdir()
    context.setenv("TMPDIR", str(here))
    context.setattr(tempfile, "tempdir", None)
    run.install(storage.url)
    yield epath.Path(f"gs://{server.BUCKET}/{uuid.uuid4().hex[:8]}")
  storage.be_well()


@pytest.fixture
def gcsfs_storage(
  monkeypatch: pytest.MonkeyPatch,
) -> Callable[[str], None]:
  """Makes gcsfs itself, which is optional, take a URL for Google's storage."""
  gcsfs = pytest.importorskip("gcsfs")
  config = importlib.import_module("fsspec.config").conf
  known = importlib.import_module("fsspec.registry")._registry

  def use(url: str) -> None:
    monkeypatch.setitem(known, "gcs", gcsfs.GCSFileSystem)
    monkeypatch.setitem(config, "gcs", {"token": "anon", "endpoint_url": url})

  return use


SELDOM = {"slow", "exhaustive"}


def pytest_addoption(parser: pytest.Parser) -> None:
  parser.addoption(
    "--slow", action="store_true", help="also run the tests marked slow"
  )
  parser.addoption("--exhaustive", action="store_true", help="run all tests")


def pytest_collection_modifyitems(
  config: pytest.Config, items: list[pytest.Item]
) -> None:
  """Deselects slow tests unless asked for; tests of changed files come first.

  The variable TEST_FIRST names changed files. The other files come in an order
  that TEST_ORDER draws, if it is set: where time ends before them, others are
  left out for another value. `.ci/run` sets both.
  """
  first = set(map(_test_of, os.environ.get("TEST_FIRST", "").split()))
  drawn = os.environ.get("TEST_ORDER")

  def place(item: pytest.Item) -> tuple[bool, str]:
    path = str(item.path.relative_to(REPO))
    number = hashlib.sha256(f"{drawn} {path}".encode()).hexdigest()
    return path not in first, number if drawn else ""

  items.sort(key=place)
  if config.getoption("--exhaustive"):
    return
  marks = {"exhaustive"} if config.getoption("--slow") else SELDOM
  left_out = [x for x in items if marks & {m.name for m in x.iter_markers()}]
  config.hook.pytest_deselected(items=left_out)
  items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
  """Skips what would begin after TEST_UNTIL, in seconds since 1970."""
  if time.time() > float(os.environ.get("TEST_UNTIL", "inf")):
    pytest.skip("no time was left (TEST_UNTIL)")


def _test_of(changed: str) -> str:
  """'vit_jax/data/order.py' -> 'tests/data/test_order.py'."""
  path = pathlib.PurePath(changed)
  if path.parts[0] != "vit_jax":
    return changed
  return str(pathlib.Path("tests", *path.parts[1:-1], f"test_{path.name}"))
