"""What the tests of docs/ share."""

import importlib
import types
from collections.abc import Callable

import pytest

Load = Callable[[str], types.ModuleType]


@pytest.fixture
def hook(repo, monkeypatch) -> Load:
  """Loads a module of docs/hooks/ by name, as the build of the site does."""
  pytest.importorskip("mkdocs")
  monkeypatch.syspath_prepend(repo / "docs" / "hooks")
  return importlib.import_module
