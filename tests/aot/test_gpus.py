"""GPUs by name, and whole steps compiled for those that are absent."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest

from vit_jax.aot import gpus, topology
from vit_jax.errors import UserError
from vit_jax.sharding.topologies import find_accelerator


@pytest.mark.parametrize(
  ("name", "hosts", "per_host", "text"),
  [
    ("h100:8", 1, 8, "h100:8"),
    ("h100:4x8", 4, 8, "h100:4x8"),
    ("rtx4090:1", 1, 1, "rtx4090:1"),
    ("a100:1x4", 1, 4, "a100:4"),
  ],
)
def test_a_name_is_a_gpu_and_how_many_there_are(name, hosts, per_host, text):
  found = topology.parse(name)
  assert (found.num_hosts, found.gpus_per_host) == (hosts, per_host)
  assert found.num_devices == found.num_chips == hosts * per_host
  assert str(found) == text


@pytest.mark.parametrize("name", gpus.GPUS)
def test_memory_and_bandwidth_are_the_datasheets(name):
  """XLA's description has what a driver finds, datasheets round."""
  found, sheet = gpus.GPUS[name], topology.parse(f"{name}:1").accelerator
  assert sheet == find_accelerator(found.kind)
  assert found.memory == pytest.approx(sheet.hbm_bytes, rel=0.08)
  assert found.bandwidth == pytest.approx(sheet.hbm_bandwidth, rel=0.05)


@pytest.mark.parametrize(
  ("name", "num_slices", "sentence"),
  [
    ("h100:0", None, "must be of at least one GPU"),
    ("h100:0x8", None, "must be of at least one GPU"),
    ("h100:8", 2, "are written HOSTSxGPUS, as h100:2x8"),
    ("h300:8", None, "GPUs (a100, h100, h200, b200, l4, rtx4090) are"),
    ("h100", None, "are written h100:8, or h100:4x8 for four hosts"),
  ],
)
def test_what_is_no_gpu_is_refused_by_a_sentence(name, num_slices, sentence):
  with pytest.raises(UserError) as error:
    topology.parse(name, num_slices)
  assert sentence in str(error.value)


def test_without_the_compiler_it_is_said_how_to_install_it(monkeypatch):
  monkeypatch.setattr(gpus.importlib.util, "find_spec", lambda name: None)
  with pytest.raises(UserError, match="pip install jax-cuda12-plugin=="):
    topology.prepare_environment(topology.parse("h100:8"))


def test_attention_of_cudnn_wants_its_libraries(monkeypatch):
  monkeypatch.setattr(gpus.importlib.util, "find_spec", lambda name: None)
  gpus.check_cudnn("xla")
  with pytest.raises(UserError, match="pip install nvidia-cudnn-cu12"):
    gpus.check_cudnn("cudnn")


@pytest.fixture
def compiled(repo, tmp_path):
  """Compiles a config of a tiny network through the command."""
  if not importlib.util.find_spec("jax_cuda12_plugin") or not (
    importlib.util.find_spec("nvidia")
    and importlib.util.find_spec("nvidia.cuda_nvcc")
  ):
    pytest.skip("needs jax's CUDA plugin and nvidia-cuda-nvcc")

  def run(name, *overrides):
    output = tmp_path / "cost.json"
    command = [sys.executable, "-m", "vit_jax.compile", f"--output={output}"]
    command += ["--config=configs/benchmark.py:model=Ti/16,batch=64"]
    command += [f"--topology={name}", "--config.model.depth=2", *overrides]
    found = subprocess.run(
      command, cwd=repo, capture_output=True, text=True, env=dict(os.environ)
    )
    assert found.returncode == 0, found.stderr
    return json.loads(output.read_text()), found.stdout

  return run


@pytest.mark.slow
def test_a_step_on_two_hosts_has_its_memory_kernels_and_exchanges(compiled):
  found, shown = compiled("h100:2x2", "--config.mesh.fsdp=1")
  assert found["fits"] and found["num_devices"] == 4
  assert found["estimated_cycles"] is None
  sizes = found["hbm_bytes_per_device"]
  assert sizes["arguments"] < sizes["total"] < found["hbm_limit_bytes"]
  # Three forward passes, without the gradient of the pixels.
  share = found["model_flops_per_step"] / 4
  assert found["flops_per_device"] == pytest.approx(share, rel=0.05)
  assert found["gpu_kernels"]["products (cuBLAS)"]["count"] > 20
  # Gradients of all parameters are summed once, in float32.
  summed = found["collectives"]["all-reduce"]["bytes"]
  assert summed == pytest.approx(4 * found["param_count"], rel=0.01)
  # From host to host through the two adapters of a host.
  seconds = 2 * 3 / 4 * summed / 2 / 50e9
  assert found["estimated_collective_seconds"] == pytest.approx(seconds)
  assert "It fits into" in shown


@pytest.mark.slow
def test_a_step_that_does_not_fit_is_a_result(compiled):
  found, shown = compiled("l4:1", "--config.train.batch_size=65536")
  assert not found["fits"]
  assert found["hbm_bytes_per_device"]["total"] > found["hbm_limit_bytes"]
  assert "It does not fit" in shown
