"""Trackers for tests, and a place for what the real ones write."""

import os
import pathlib
import tempfile

import pytest

from tests.rundir.trackers import toy
from vit_jax import registry
from vit_jax.rundir.trackers.contract import RunInfo

# Trackio reads it when it is imported.
_HOME = tempfile.TemporaryDirectory(prefix="vit_jax-trackers-")
os.environ.setdefault("TRACKIO_DIR", f"{_HOME.name}/trackio")


@pytest.fixture
def store(monkeypatch):
  """The tracker 'toy', registered for one test."""
  store = toy.Store()
  entries = registry.TRACKERS._entries | {"toy": store.kind}
  monkeypatch.setattr(registry.TRACKERS, "_entries", entries)
  yield store
  store.open.set()


@pytest.fixture
def info(tmp_path) -> RunInfo:
  return RunInfo(
    project=f"project_{tmp_path.name}",
    name="first",
    group="sweep",
    directory=pathlib.Path(tmp_path),
    config={"seed": 3, "model": {"variant": "Ti/4"}, "evals": {}},
    facts={"workdir": "/runs/first", "versions": {"jax": "1.2"}},
  )
