"""Evaluation on several processes equals evaluation on one."""

import json
import os
import pathlib
import socket
import subprocess
import sys

import numpy as np
import pytest

from tests import mask_folders

# What each process runs: every evaluator of a linear model on four devices in
# all.
_SCRIPT = """
import json, pathlib, sys
import jax
import jax.numpy as jnp
import numpy as np
from etils import epath

port, workdir = sys.argv[1], sys.argv[4]
number, count = map(int, sys.argv[2:4])
if count > 1:
  jax.distributed.initialize(f"localhost:{port}", count, number)
assert jax.device_count() == 4

from vit_jax.config import named_sections, schema
from vit_jax.evaluators import build, contract
from vit_jax.models import build as models_build
from vit_jax.sharding import mesh as meshes

DATASET = "generated:classes=5,size=8,examples=212"
PAIRS = DATASET + ",captions=3"
entries = {
  "test": schema.ClassificationEval(type="classification"),
  "few": schema.FewshotEval(
    type="fewshot",
    datasets={"toy": schema.FewshotDataset(dataset=DATASET)},
    shots=(1, 5),
  ),
  "near": schema.KnnEval(
    type="knn",
    datasets={"toy": schema.FewshotDataset(dataset=DATASET)},
    neighbors=(1, 20),
  ),
  "probe": schema.LinearProbeEval(
    type="linear_probe",
    datasets={"toy": schema.FewshotDataset(dataset=DATASET)},
    l2_sweep=(1e-3, 1e-1),
    max_iterations=100,
  ),
  **{
    protocol: schema.LinearProbeEval(
      type="linear_probe",
      protocol=protocol,
      datasets={protocol: schema.FewshotDataset(dataset=DATASET)},
      train_batch_size=32,
      epochs=3,
      **keys,
    )
    for protocol, keys in (
      ("dino", {"blocks": (2,), "learning_rates": (1.0,)}),
      ("dinov2", {"blocks": (1, 2), "augment": "decode|flip_lr"}),
      ("mae", {"warmup_epochs": 1}),
    )
  },
  "pixels": schema.LinearSegmentationEval(
    type="linear_segmentation",
    datasets={
      "squares": schema.SegmentationDataset(
        directory=str(pathlib.Path(workdir).parent / "squares")
      )
    },
    blocks=2,
    steps=20,
    warmup_steps=1,
    train_batch_size=6,
    learning_rate=0.05,
  ),
  "words": schema.ZeroShotEval(
    type="zeroshot",
    datasets={
      "toy": schema.ZeroShotDataset(
        dataset=PAIRS, split="test", preprocess="decode", templates=("clip7",)
      )
    },
  ),
  "find": schema.RetrievalEval(
    type="retrieval",
    datasets={
      "toy": schema.RetrievalDataset(
        dataset=PAIRS, split="test", preprocess="decode"
      )
    },
  ),
}
config = schema.Config(
  model=named_sections.section(
    "model",
    name="two_towers",
    image_size=8,
    variant="Ti/4",
    image={"width": 16, "depth": 2, "num_heads": 2},
    text={"length": 32, "vocab_size": 258, "width": 16, "num_heads": 2},
  ),
  train=schema.Train(dataset=DATASET, batch_size=16, tokenizer="bytes"),
  evals=entries,
)


def unit(x):
  return x / jnp.linalg.norm(x, axis=1, keepdims=True)


def outputs(params, batch):
  if "text" in batch:
    bytes_ = jax.nn.one_hot(batch["text"], 258).sum(1) @ params_of_text
    return {"text_embedding": unit(bytes_)}
  images = batch["image"]
  pixels = images.reshape(len(images), -1).astype(jnp.float32) / 255
  return {
    "logits": pixels @ params["kernel"],
    "pre_logits": pixels[:, ::7],
    "image_embedding": unit((pixels - 0.5) @ params["kernel"]),
    "scale": jnp.float32(5),
  }


class State:
  pass


mesh = meshes.create_mesh(config.mesh)
weights = np.random.default_rng(0).normal(size=(192, 5)).astype(np.float32)
params_of_text = np.random.default_rng(1).normal(size=(258, 5))
state = State()
network = models_build.create(config.model, num_classes=None)
shapes = jax.eval_shape(
  network.init, jax.random.key(0), jnp.zeros((1, 8, 8, 3), jnp.uint8)
)["params"]
params = jax.tree.map(
  lambda leaf: np.random.default_rng(leaf.size).normal(size=leaf.shape), shapes
)
params = {**params, "kernel": weights}
params = jax.tree.map(lambda leaf: leaf.astype(np.float32), params)
state.eval_params = jax.device_put(params, meshes.replicated(mesh))
context = contract.Context(
  config=config,
  outputs=outputs,
  mesh=mesh,
  workdir=epath.Path(workdir),
  num_classes=5,
)
metrics = {}
with jax.transfer_guard("disallow"):
  for name, entry in entries.items():
    metrics |= build.build(name, entry, context).run(state, 9)
path = pathlib.Path(workdir) / f"metrics_{number}.json"
path.write_text(json.dumps(metrics))
"""


def _run(count: int, workdir: pathlib.Path, repo: pathlib.Path) -> list[dict]:
  """The metrics that each of `count` processes gives."""
  workdir.mkdir()
  with socket.socket() as free:
    free.bind(("localhost", 0))
    port = free.getsockname()[1]
  environment = os.environ | {
    "JAX_NUM_CPU_DEVICES": str(4 // count),
    "PYTHONPATH": str(repo),
  }
  processes = [
    subprocess.Popen(
      [sys.executable, "-c", _SCRIPT, str(port), str(n), str(count), workdir],
      env=environment,
    )
    for n in range(count)
  ]
  try:
    assert [p.wait(timeout=300) for p in processes] == [0] * count
  finally:
    for process in processes:
      process.kill()
  return [
    json.loads((workdir / f"metrics_{n}.json").read_text())
    for n in range(count)
  ]


@pytest.mark.slow
def test_two_processes_equal_one(tmp_path, repo):
  mask_folders.make(tmp_path / "squares", side=8)
  (alone,) = _run(1, tmp_path / "one", repo)
  first, second = _run(2, tmp_path / "two", repo)
  assert first == second == alone
  one, two = (
    tmp_path / name / "evaluations" / "test" / "9" for name in ("one", "two")
  )
  written = {p.relative_to(one) for p in one.rglob("*")}
  assert written == {p.relative_to(two) for p in two.rglob("*")}
  assert len(list(two.glob("images/*.png"))) > 24
  for file in written:
    if file.suffix in (".png", ".json"):
      assert (one / file).read_bytes() == (two / file).read_bytes()
  found = pathlib.Path("evaluations/find/toy/9/retrieval.json")
  assert (tmp_path / "one" / found).read_bytes() == (
    tmp_path / "two" / found
  ).read_bytes()
  assert 0 < alone["retrieval/toy/image_to_text_r10"] < 1
  for protocol in ("dino", "dinov2", "mae"):
    assert 0 < alone[f"linear_probe/{protocol}/top1"] <= 1
  assert 0 < alone["linear_segmentation/squares/miou"] <= 1
  assert alone["zeroshot/toy/num_examples"] == 53
  predictions = (np.load(p / "predictions.npz") for p in (one, two))
  for ours, theirs in zip(*(p["prediction"] for p in predictions), strict=True):
    assert ours == theirs
