"""Training images per second on a CPU, compared with timm's in one run.

  python benchmarks/cpu_vs_timm.py [--models=DeiT-S/16,Swin-T,ConvNeXt-T]
      [--batch=16] [--steps=5] [--rounds=3] [--smoke] [--output=JSON]

Both take the same uint8 images and labels, normalise them, run forward and
backward in float32 and update by AdamW; ours is configs/benchmark.py without
clipping. Each measurement is a process of its own, with large pages of memory
for both as our commands ask for them, and rounds of both take turns, as
machines' speed drifts; of each the best round counts. Needs torch and timm in
an environment that has this project too.
"""

import argparse
import functools
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from vit_jax import large_pages  # noqa: E402
from vit_jax.config import experiment_file, resolve, schema  # noqa: E402

# Our name -> timm's.
_TIMM = {
  "DeiT-Ti/16": "deit_tiny_patch16_224",
  "DeiT-S/16": "deit_small_patch16_224",
  "DeiT-B/16": "deit_base_patch16_224",
  "Swin-T": "swin_tiny_patch4_window7_224",
  "Swin-S": "swin_small_patch4_window7_224",
  "ConvNeXt-T": "convnext_tiny",
  "ConvNeXt-S": "convnext_small",
  "ConvNeXtV2-atto": "convnextv2_atto",
}


def config(model: str, batch: int) -> schema.Config:
  """The config of our step."""
  values = experiment_file.load(
    str(ROOT / "configs" / "benchmark.py"), f"model={model},batch={batch}"
  ).to_dict()
  values["optimizer"]["grad_clip_norm"] = None
  return resolve.resolve(values)


def ours(config: schema.Config) -> Callable[[], Any]:
  """Our compiled step."""
  import jax
  import numpy as np

  from vit_jax.data import facts
  from vit_jax.training import experiment

  found, _ = facts.find(config)
  parts = experiment.build(config, found)
  limits = {"image": 256, "label": found.num_classes}
  rng = np.random.default_rng(0)
  batch = {
    name: jax.device_put(
      rng.integers(0, limits[name], spec.shape).astype(spec.dtype),
      spec.sharding,
    )
    for name, spec in parts.abstract_batch().items()
  }
  compiled = functools.partial(parts.compile(), parts.constants)
  state = parts.init_state()

  def step() -> None:
    nonlocal state
    state, metrics = compiled(state, batch)
    jax.block_until_ready((state, metrics))

  return step


def timms(config: schema.Config, name: str) -> Callable[[], Any]:
  """timm's step, in PyTorch's eager mode."""
  import timm
  import torch

  torch.manual_seed(0)
  network = timm.create_model(name).train()
  optimizer = torch.optim.AdamW(
    network.parameters(), lr=1e-3, weight_decay=config.optimizer.weight_decay
  )
  shape = (config.train.batch_size, 3, 224, 224)
  images = torch.randint(0, 256, shape, dtype=torch.uint8)
  labels = torch.randint(0, 1000, shape[:1])

  def step() -> None:
    logits = network((images.float() - 127.5) / 127.5)
    loss = torch.nn.functional.cross_entropy(logits, labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()

  return step


def seconds(step: Callable[[], Any], steps: int) -> float:
  """Seconds of the quickest of some steps, after one that warms up."""
  step()
  found = []
  for _ in range(steps):
    start = time.perf_counter()
    step()
    found.append(time.perf_counter() - start)
  return min(found)


def measured(engine: str, model: str, arguments: Any) -> float:
  """One measurement in a process of its own."""
  command = [sys.executable, __file__, f"--engine={engine}"]
  command += [f"--models={model}", f"--batch={arguments.batch}"]
  command += [f"--steps={arguments.steps}"]
  environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
  done = subprocess.run(
    command,
    env=large_pages.with_large_pages(environment) or environment,
    capture_output=True,
    text=True,
  )
  if done.returncode:
    lines = done.stderr.strip().splitlines() or ["nothing was said"]
    sys.exit(f"{model}, {engine} fails: {lines[-1]}")
  return float(done.stdout.strip().splitlines()[-1])


def main() -> None:
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--models", default="DeiT-S/16,Swin-T,ConvNeXt-T")
  parser.add_argument("--batch", type=int, default=16)
  parser.add_argument("--steps", type=int, default=5)
  parser.add_argument("--rounds", type=int, default=3)
  parser.add_argument("--smoke", action="store_true", help="Two images, once.")
  parser.add_argument("--output", help="JSON file for the figures.")
  parser.add_argument("--engine", help=argparse.SUPPRESS)
  arguments = parser.parse_args()
  if arguments.smoke:
    arguments.batch, arguments.steps, arguments.rounds = 2, 1, 1
  models = arguments.models.split(",")
  if unknown := [model for model in models if model not in _TIMM]:
    sys.exit(
      f"--models={unknown[0]} has no counterpart here; known are"
      f" {', '.join(_TIMM)}."
    )
  if arguments.engine:
    found = config(models[0], arguments.batch)
    step = (
      timms(found, _TIMM[models[0]])
      if arguments.engine == "timm"
      else ours(found)
    )
    print(seconds(step, arguments.steps))
    return
  for module in ("torch", "timm"):
    if importlib.util.find_spec(module) is None:
      sys.exit(
        f"The comparison needs {module}, which is not installed: pip install"
        " torch timm, in an environment that has this project too."
      )
  rows = []
  print("model            ours images/s  timm images/s  ratio", flush=True)
  for model in models:
    best = {"ours": float("inf"), "timm": float("inf")}
    for _ in range(arguments.rounds):
      for engine in best:
        found = measured(engine, model, arguments)
        best[engine] = min(best[engine], found)
    rates = {name: arguments.batch / x for name, x in best.items()}
    ratio = rates["ours"] / rates["timm"]
    rows.append({"model": model, **rates, "ratio": ratio})
    print(
      f"{model:15}  {rates['ours']:13.2f}  {rates['timm']:13.2f}  {ratio:5.2f}",
      flush=True,
    )
  if arguments.output:
    pathlib.Path(arguments.output).write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
  main()
