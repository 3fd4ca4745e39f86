"""Ctrl-C before a command has begun."""

import signal
import subprocess
import sys

import pytest

# Presses Ctrl-C when a module is imported.
PRESSING = """
import os, signal, sys
class Finder:
  def find_spec(self, name, *unused):
    if name == "ml_collections":
      {action}
sys.meta_path.insert(0, Finder())
"""


@pytest.fixture
def ended(tmp_path, monkeypatch, repo):
  """How a command ends if something happens during its imports."""

  def run(action, *arguments, before=""):
    text = PRESSING.format(action=action) + before
    (tmp_path / "sitecustomize.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{repo}")
    process = subprocess.run(
      [sys.executable, "-m", *arguments],
      capture_output=True,
      text=True,
      timeout=300,
    )
    return process.returncode, process.stdout, process.stderr

  return run


@pytest.mark.parametrize("command", [("vit_jax.tables",), ("vit_jax", "train")])
def test_ctrl_c_during_imports_prints_nothing(ended, command):
  found = ended("os.kill(os.getpid(), signal.SIGINT)", *command)
  assert found == (-signal.SIGINT, "", "")


def test_errors_during_imports_keep_their_trace(ended):
  code, _, said = ended("raise RuntimeError('no room')", "vit_jax.tables")
  assert code == 1
  assert "Traceback" in said and "RuntimeError: no room" in said


def test_errors_during_imports_reach_hooks_of_others(ended):
  hook = "sys.excepthook = lambda kind, error, trace: print(f'seen: {error}')"
  action = "raise RuntimeError('no room')"
  found = ended(action, "vit_jax.tables", before=hook)
  assert found == (1, "seen: no room\n", "")


def test_programs_of_others_keep_their_trace(ended, tmp_path):
  package = tmp_path / "theirs"
  package.mkdir()
  (package / "__init__.py").write_text("import vit_jax")
  (package / "__main__.py").write_text("raise KeyboardInterrupt")
  code, _, said = ended("pass", "theirs")
  assert code == -signal.SIGINT
  assert "Traceback" in said
