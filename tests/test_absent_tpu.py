import importlib.machinery
import importlib.metadata
import importlib.util
import os
import subprocess
import sys

import pytest

from vit_jax import absent_tpu


@pytest.fixture
def libtpu(monkeypatch):
  """An environment where libtpu can be imported."""
  spec = importlib.machinery.ModuleSpec("libtpu", None)
  monkeypatch.setattr(importlib.util, "find_spec", {"libtpu": spec}.get)


def chosen(devices, **environment):
  absent_tpu.choose_platform(environment, str(devices))
  return environment.get("JAX_PLATFORMS")


def test_without_a_tpu_jax_uses_the_cpu(libtpu, tmp_path):
  assert chosen(tmp_path) == "cpu"


def test_without_libtpu_nothing_is_chosen(monkeypatch, tmp_path):
  monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
  assert chosen(tmp_path) is None


@pytest.mark.parametrize(
  "device", ["accel0", "accel3", "vfio/0", "nvidia0", "nvidiactl", "kfd", "dxg"]
)
def test_a_machine_with_an_accelerator_is_left_alone(libtpu, tmp_path, device):
  (tmp_path / device).parent.mkdir(exist_ok=True)
  (tmp_path / device).touch()
  assert chosen(tmp_path) is None


@pytest.mark.parametrize(
  ("name", "value"),
  [
    ("JAX_PLATFORMS", "tpu,cpu"),
    ("JAX_FORCE_TPU_INIT", "1"),
    ("TPU_WORKER_ID", "3"),
    ("TPU_LIBRARY_PATH", "/opt/libtpu.so"),
  ],
)
def test_what_the_environment_says_counts(libtpu, tmp_path, name, value):
  environment = {name: value}
  absent_tpu.choose_platform(environment, str(tmp_path))
  assert environment == {name: value}


@pytest.mark.parametrize(
  ("plugin", "platform"), [("xla_cuda12", "cpu"), ("neuron", None)]
)
def test_a_plugin_for_other_devices_is_left_alone(
  libtpu, tmp_path, monkeypatch, plugin, platform
):
  found = [importlib.metadata.EntryPoint(plugin, plugin, "jax_plugins")]
  monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: found)
  assert chosen(tmp_path) == platform


def test_jax_starts_quietly_where_libtpu_is_installed_without_a_tpu(repo):
  if importlib.util.find_spec("libtpu") is None:
    pytest.skip("libtpu is not installed; the tpu extra brings it")
  silent = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("JAX_PLATFORM", "TPU_"))
  }
  outcome = subprocess.run(
    [sys.executable, "-c", "import vit_jax, jax; print(jax.devices())"],
    env=silent,
    cwd=repo,
    capture_output=True,
    text=True,
  )
  assert outcome.returncode == 0
  assert outcome.stderr == ""
