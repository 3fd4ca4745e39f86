"""Whole train steps with cuDNN's attention, compiled for H100 that are absent.

Needs the CUDA plugin of jax and cuDNN's libraries, no GPU and no driver.
"""

import importlib.util
import json
import os
import subprocess
import sys

import pytest

PLUGINS = ("jax_cuda12_plugin", "jax_cuda13_plugin")
# As XLA describes the device to its compiler.
H100 = """
platform_name: "CUDA"
device_description_str: "NVIDIA H100 80GB HBM3"
dnn_version_info { major: 9 minor: 10 }
runtime_version { major: 12 minor: 9 }
gpu_device_info {
  cuda_compute_capability { major: 9 }
  core_count: 132
  fpus_per_core: 128
  clock_rate_ghz: 1.98
  device_memory_size: 84929347584
  memory_bandwidth: 3352320000000
  l2_cache_size: 52428800
  threads_per_warp: 32
  threads_per_block_limit: 1024
  threads_per_core_limit: 2048
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  shared_memory_per_block: 49152
  shared_memory_per_block_optin: 232448
  shared_memory_per_core: 233472
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
}
"""
# Odd numbers of tokens: with registers, of MAE's visible quarter and decoder,
# and turned by rotary positions. What biases its scores is left to xla.
STEPS = {
  "registers": {"model__registers": 4},
  "mae": {
    "objective__name": "mae",
    "objective__decoder_width": 32,
    "objective__decoder_num_heads": 4,
    "objective__decoder_depth": 1,
  },
  "rope": {"model__rope": True, "model__num_heads": 2},
  "relative_bias": {
    "model__pos_embedding": "relative_bias",
    "model__pos_embedding_at": "every_layer",
  },
}
CODE = """
import json, sys
from jax.experimental import topologies
from tests import experiments
from vit_jax import checks
from vit_jax.sharding import mesh
from vit_jax.training import experiment

description, steps = json.load(sys.stdin)
devices = topologies.get_topology_desc(
  platform="cuda", target_config=description, topology="1x1x2"
).devices
found = {}
for name, changes in steps.items():
  changes |= {"model__dtype": "bfloat16", "train__preprocess": "decode"}
  config = experiments.config(evals={}, **changes)
  checks.check(config)
  facts = experiments.facts(config)
  on = mesh.create_mesh(config.mesh, list(devices))
  parts = experiment.build(config, facts, on)
  text = parts.lower().compile().as_text()
  kernels = [
    text.count(f'custom_call_target="__cudnn$fmhaSoftmax{which}"')
    for which in ("", "Backward")
  ]
  found[name] = [parts.config.model.attention, *kernels]
print(json.dumps(found))
"""


@pytest.mark.slow
def test_steps_on_absent_h100_use_cudnn_where_it_can_be(repo):
  if not any(map(importlib.util.find_spec, PLUGINS)) or not (
    importlib.util.find_spec("nvidia")
    and importlib.util.find_spec("nvidia.cudnn")
  ):
    pytest.skip("needs jax's CUDA plugin and nvidia-cudnn")
  settings = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
    "JAX_PLATFORMS": "cpu",
    # There is no GPU to try matrix products on.
    "XLA_FLAGS": (
      "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false"
    ),
  }
  run = subprocess.run(
    [sys.executable, "-c", CODE],
    input=json.dumps([H100, STEPS]),
    env=os.environ | settings,
    capture_output=True,
    text=True,
    cwd=repo,
  )
  assert run.returncode == 0, run.stderr
  assert json.loads(run.stdout.splitlines()[-1]) == {
    "registers": ["cudnn", 2, 2],
    "mae": ["cudnn", 3, 3],
    "rope": ["cudnn", 2, 2],
    "relative_bias": ["xla", 0, 0],
  }
