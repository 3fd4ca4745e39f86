"""Training images per second and MFU on a GPU, ours beside timm's, in one call.

  python benchmarks/gpu_vs_timm.py [--models=B/16,L/16] [--batch=256]
      [--attention=cudnn,xla] [--steps=30] [--smoke] [--output=JSON]

Both take the same uint8 images and labels that lie on the device, normalise
them, run forward and backward in bfloat16, clip to norm 1 and update by AdamW
in float32. Ours is configs/benchmark.py; timm's VisionTransformer of the same
sizes runs under torch.compile and autocast, with fused attention and a fused
AdamW. Each is measured in a process of its own, so that neither has the
other's memory. --smoke shrinks both to seconds on a CPU, not compiled by
torch, and shows no more than that the script works.
"""

import argparse
import functools
import importlib.util
import json
import math
import os
import pathlib
import subprocess
import sys
import time
from typing import Any

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from vit_jax import command_line  # noqa: E402
from vit_jax.config import resolve, schema  # noqa: E402
from vit_jax.errors import UserError  # noqa: E402
from vit_jax.models.vit import sizes  # noqa: E402

_WARMUP_STEPS = 5
_SMOKE = {"model": {"image_size": 32, "depth": 2}}


def config(
  model: str, batch: int, attention: str, smoke: bool
) -> schema.Config:
  """The config of both: ours runs it, timm's network takes its sizes."""
  values = command_line.load_config(
    str(ROOT / "configs" / "benchmark.py"),
    f"model={model},batch={batch},dtype=bfloat16",
  ).to_dict()
  values["model"]["attention"] = attention
  values["optimizer"]["grad_clip_norm"] = 1.0
  if smoke:
    values["model"] |= _SMOKE["model"]
  return resolve.resolve(values)


def time_ours(config: schema.Config, steps: int) -> dict[str, Any]:
  """Seconds of our step, and what the device is."""
  import jax
  import numpy as np

  from vit_jax.aot import xla_flags
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
  kind = jax.devices()[0].device_kind
  options = xla_flags.options(kind, config.mesh)
  step = functools.partial(parts.compile(options), parts.constants)
  state = parts.init_state()

  def run(count: int) -> tuple[float, float]:
    nonlocal state
    start = time.perf_counter()
    for _ in range(count):
      state, metrics = step(state, batch)
    jax.block_until_ready((state, metrics))
    seconds = (time.perf_counter() - start) / count
    return seconds, float(metrics["grad_norm"])

  run(_WARMUP_STEPS)
  seconds, norm = run(steps)
  return {
    "seconds": seconds,
    "grad_norm": norm,
    "flops": parts.flops_per_step / jax.device_count(),
    "device": kind,
    "version": f"jax {jax.__version__}",
  }


def time_timm(config: schema.Config, steps: int, smoke: bool) -> dict[str, Any]:
  """Seconds of timm's step on the first GPU, or the CPU for a smoke test."""
  import timm
  import torch
  from timm.models.vision_transformer import VisionTransformer

  device = torch.device("cpu" if smoke else "cuda:0")
  torch.manual_seed(0)
  torch.backends.cuda.matmul.allow_tf32 = True
  size, image_size = sizes.vit(config.model), config.model.image_size
  network = VisionTransformer(
    img_size=image_size,
    patch_size=size.patch_size,
    embed_dim=size.width,
    depth=size.depth,
    num_heads=size.num_heads,
    mlp_ratio=size.mlp_dim / size.width,
    num_classes=1000,
  ).to(device)
  model = network if smoke else torch.compile(network)
  optimizer = torch.optim.AdamW(
    network.parameters(),
    lr=1e-3,
    weight_decay=config.optimizer.weight_decay,
    fused=not smoke,
  )
  shape = (config.train.batch_size, 3, image_size, image_size)
  images = torch.randint(0, 256, shape, dtype=torch.uint8, device=device)
  labels = torch.randint(0, 1000, shape[:1], device=device)

  def step() -> torch.Tensor:
    with torch.autocast(device.type, dtype=torch.bfloat16):
      logits = model((images.float() - 127.5) / 127.5)
      loss = torch.nn.functional.cross_entropy(logits, labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(
      network.parameters(), config.optimizer.grad_clip_norm
    )
    optimizer.step()
    return norm

  def run(count: int) -> tuple[float, float]:
    start = time.perf_counter()
    for _ in range(count):
      norm = step()
    if not smoke:
      torch.cuda.synchronize()
    return (time.perf_counter() - start) / count, float(norm)

  run(_WARMUP_STEPS)
  seconds, norm = run(steps)
  return {
    "seconds": seconds,
    "grad_norm": norm,
    "version": f"torch {torch.__version__}, timm {timm.__version__}",
  }


def missing(smoke: bool) -> str | None:
  """A sentence on what this machine lacks; None if nothing."""
  for module in ("torch", "timm"):
    if importlib.util.find_spec(module) is None:
      return (
        f"The comparison needs {module}, which is not installed: pip install"
        " torch timm, in an environment that has this project too."
      )
  if smoke:
    return None
  import torch

  if not torch.cuda.is_available():
    return (
      "torch finds no GPU here; run this where there is one, or try the script"
      " itself with --smoke."
    )
  return None


def measured(engine: str, model: str, arguments: Any) -> dict[str, Any]:
  """Runs one measurement in a process of its own.

  Raises:
    UserError: It fails, with the last line it wrote, or its gradients are not
      finite.
  """
  command = [sys.executable, __file__, f"--engine={engine}"]
  command += [f"--models={model}", f"--batch={arguments.batch}"]
  command += [f"--steps={arguments.steps}"]
  command += ["--smoke"] if arguments.smoke else []
  environment = {**os.environ}
  if arguments.smoke:
    environment["JAX_PLATFORMS"] = "cpu"
  done = subprocess.run(
    command, env=environment, capture_output=True, text=True
  )
  if done.returncode:
    lines = done.stderr.strip().splitlines() or ["nothing was said"]
    raise UserError(f"{model}, {engine} fails: {lines[-1]}")
  found = json.loads(done.stdout.strip().splitlines()[-1])
  # Products of NaN are faster than those of numbers.
  if not math.isfinite(found["grad_norm"]):
    raise UserError(f"{model}, {engine}: the gradients are not finite.")
  return found


def row(
  model: str, engine: str, found: dict[str, Any], batch: int, timm: float
) -> dict[str, Any]:
  """A row of the table, from seconds of a step and those of timm's."""
  from vit_jax.sharding import topologies

  accelerator = topologies.find_accelerator(found["device"])
  mfu = None
  if accelerator is not None:
    mfu = found["flops"] / found["seconds"] / accelerator.flops_per_device
  return {
    "model": model,
    "engine": engine,
    "images_per_second": batch / found["seconds"],
    "mfu": mfu,
    "ratio_to_timm": timm / found["seconds"],
    **found,
  }


def line(row: dict[str, Any]) -> str:
  mfu = "   -" if row["mfu"] is None else f"{100 * row['mfu']:3.0f}%"
  return (
    f"{row['model']:5}  {row['engine']:11}  {row['images_per_second']:9.1f}"
    f"  {mfu}  {row['ratio_to_timm']:5.2f}  {row['version']}"
  )


def main() -> None:
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--models", default="B/16,L/16")
  parser.add_argument("--batch", type=int, default=256)
  parser.add_argument("--attention", default="cudnn,xla")
  parser.add_argument("--steps", type=int, default=30)
  parser.add_argument("--smoke", action="store_true")
  parser.add_argument("--output", help="JSON file for the figures.")
  parser.add_argument("--engine", help=argparse.SUPPRESS)
  arguments = parser.parse_args()
  smoke = arguments.smoke
  if smoke:
    arguments.batch, arguments.steps, arguments.attention = 4, 2, "xla"
    arguments.models = "Ti/16"
  if arguments.engine:
    attention = arguments.engine.partition(":")[2] or "xla"
    ours = config(arguments.models, arguments.batch, attention, smoke)
    found = (
      time_timm(ours, arguments.steps, smoke)
      if arguments.engine == "timm"
      else time_ours(ours, arguments.steps)
    )
    print(json.dumps(found))
    return
  if problem := missing(smoke):
    sys.exit(problem)
  rows = []
  print("model  engine       images/s   MFU  ratio", flush=True)
  try:
    for model in arguments.models.split(","):
      timm = measured("timm", model, arguments)
      for attention in arguments.attention.split(","):
        engine = f"ours:{attention}"
        ours = measured(engine, model, arguments)
        theirs = {**timm, "flops": ours["flops"], "device": ours["device"]}
        if not any(r["model"] == model for r in rows):
          found = row(model, "timm", theirs, arguments.batch, timm["seconds"])
          rows.append(found)
          print(line(found), flush=True)
        found = row(model, engine, ours, arguments.batch, timm["seconds"])
        rows.append(found)
        print(line(found), flush=True)
  except UserError as error:
    sys.exit(str(error))
  if arguments.output:
    pathlib.Path(arguments.output).write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
  main()
