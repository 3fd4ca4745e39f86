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
  # 128 images a GPU, 65 tokens.
  "layout": {
    "model__width": 256,
    "model__depth": 1,
    "model__image_size": 32,
    "train__preprocess": "decode|resize",
    "train__batch_size": 256,
  },
}
CODE = """
import json, sys
from tests import experiments
from vit_jax import checks
from vit_jax.aot import topology
from vit_jax.sharding import mesh
from vit_jax.training import experiment

steps = json.load(sys.stdin)
devices = topology.devices(topology.parse("h100:2"))
found = {}
for name, changes in steps.items():
  changes = {"train__preprocess": "decode", **changes}
  changes |= {"model__dtype": "bfloat16"}
  config = experiments.config(evals={}, **changes)
  checks.check(config)
  facts = experiments.facts(config)
  on = mesh.create_mesh(config.mesh, devices)
  parts = experiment.build(config, facts, on)
  text = parts.lower().compile().as_text()
  kernels = [
    text.count(f'custom_call_target="__cudnn$fmhaSoftmax{which}"')
    for which in ("", "Backward")
  ]
  found[name] = [parts.config.model.attention, *kernels]
  if name == "layout":
    orders = "[128,65,256]", "[65,256,128]"
    found[name] = [order in text for order in orders]
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
    input=json.dumps(STEPS),
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
    # Tokens lie with the images outermost, never innermost.
    "layout": [True, False],
  }
