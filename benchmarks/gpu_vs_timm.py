"""Training images per second and MFU on a GPU, compared with timm's.

  python benchmarks/gpu_vs_timm.py [--models=S/16,B/16,L/16]
      [--batches=128,256,512] [--attention=cudnn,xla,flash]
      [--recipe=dino.py:model=S/16] [--steps=30] [--parts] [--smoke]
      [--output=JSON]

Both take the same uint8 images and labels that lie on the device, normalise
them, run forward and backward in bfloat16, clip to norm 1 and update by AdamW
in float32. Ours is configs/benchmark.py; timm's VisionTransformer of the same
sizes runs under torch.compile and autocast, with fused attention and a fused
AdamW. Each is measured in a process of its own, so that neither has the
other's memory; what fails, as for want of memory, is named and the others
follow. Then comes ours alone with each --recipe, a file of configs/ and its
arguments, given as often as there are recipes: a step of many crops and a
contrastive one by default, none with --recipe= alone. --parts says on what ours
spends its time. --smoke shrinks all to seconds on a CPU, not compiled by torch,
and shows no more than that the script works.
"""

import argparse
import functools
import importlib.util
import itertools
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

ROOT = pathlib.Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import gpu_trace  # noqa: E402

from vit_jax.config import experiment_file, resolve, schema  # noqa: E402
from vit_jax.models.vit import sizes  # noqa: E402
from vit_jax.paper import cost  # noqa: E402

_WARMUP_STEPS = _TRACED_STEPS = 5
_ERROR = re.compile(r"[\w.]+(Error|Exit|Exception)\b")
_SMOKE = {"model": {"image_size": 32, "depth": 2}}
_RECIPES = ["dino.py:model=S/16", "clip.py:model=B/32"]


def config(
  model: str, batch: int, attention: str, smoke: bool
) -> schema.Config:
  """The config of both: ours runs it, timm's network takes its sizes."""
  values = experiment_file.load(
    str(ROOT / "configs" / "benchmark.py"),
    f"model={model},batch={batch},dtype=bfloat16",
  ).to_dict()
  values["model"]["attention"] = attention
  values["optimizer"]["grad_clip_norm"] = 1.0
  if smoke:
    values["model"] |= _SMOKE["model"]
  return resolve.resolve(values)


def recipe_config(recipe: str, batch: int, smoke: bool) -> schema.Config:
  """A recipe's config, FILE or FILE:ARGUMENTS, with another batch."""
  file, _, arguments = recipe.partition(":")
  words = [*filter(None, [arguments]), *(["smoke"] if smoke else [])]
  values = experiment_file.load(
    str(ROOT / "configs" / file), ",".join(words) or None
  ).to_dict()
  values["train"]["batch_size"] = batch
  return resolve.resolve(values)


def time_ours(
  config: schema.Config, steps: int, traced: bool
) -> dict[str, Any]:
  """Seconds of our step, what the device is and, traced, where they were."""
  import jax
  import numpy as np

  from vit_jax.aot import step_compilation, xla_flags

  first = jax.devices()[0]
  parts = step_compilation.build(config, [first])
  rng = np.random.default_rng(0)
  # Levels of pixels; fewer than there are classes or words.
  batch = {
    name: jax.device_put(
      rng.integers(0, 256, spec.shape).astype(spec.dtype), spec.sharding
    )
    for name, spec in parts.abstract_batch().items()
  }
  kind = first.device_kind
  options = xla_flags.options(kind, config.mesh)
  program = parts.compile(options)
  step = functools.partial(program, parts.constants)
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
  peak = (first.memory_stats() or {}).get("peak_bytes_in_use")
  spent = {}
  if traced:
    with tempfile.TemporaryDirectory() as directory:
      with jax.profiler.trace(directory):
        run(_TRACED_STEPS)
      kernels = gpu_trace.kernels(pathlib.Path(directory))
      spent = gpu_trace.parts(kernels, program.as_text(), _TRACED_STEPS)
  return {
    "seconds": seconds,
    "grad_norm": norm,
    "peak_bytes": peak,
    "milliseconds_by_part": spent,
    "flops": parts.flops_per_step,
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
  # Ours computes less in its last layer, and counts less.
  forward = cost.forward_flops(config.model, num_classes=1000)
  return {
    "seconds": seconds,
    "grad_norm": norm,
    "peak_bytes": None if smoke else torch.cuda.max_memory_allocated(),
    "flops": 3 * forward * config.train.batch_size,
    "milliseconds_by_part": {},
    "device": "cpu" if smoke else torch.cuda.get_device_name(device),
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


def measured(
  engine: str, what: Sequence[str], batch: int, arguments: Any
) -> dict[str, Any] | None:
  """Runs one measurement in a process of its own.

  Args:
    engine: 'timm' or 'ours', with the kind of attention after a colon.
    what: The flag that names the model or the recipe, and its value.
    batch: Images of a step.
    arguments: Those of the command.

  Returns:
    The figures; None, after a sentence, if it fails or its gradients are not
    finite.
  """
  command = [sys.executable, __file__, f"--engine={engine}"]
  command += [*what, f"--batches={batch}", f"--steps={arguments.steps}"]
  command += ["--smoke"] if arguments.smoke else []
  command += ["--parts"] if arguments.parts else []
  environment = {**os.environ}
  if arguments.smoke:
    environment["JAX_PLATFORMS"] = "cpu"
  done = subprocess.run(
    command, env=environment, capture_output=True, text=True
  )
  name = f"{what[-1].partition('=')[2]}, {batch} images, {engine}"
  if done.returncode:
    lines = done.stderr.strip().splitlines() or ["nothing was said"]
    # The error may be followed by advice: torch's and jax's are named so.
    errors = [line for line in lines if _ERROR.match(line)]
    print(f"{name} fails: {[*lines, *errors][-1]}", flush=True)
    return None
  found = json.loads(done.stdout.strip().splitlines()[-1])
  # Products of NaN are faster than those of numbers.
  if not math.isfinite(found["grad_norm"]):
    print(f"{name}: the gradients are not finite.", flush=True)
    return None
  return found


def row(
  what: str,
  engine: str,
  found: dict[str, Any],
  batch: int,
  timm: dict[str, Any] | None,
) -> dict[str, Any]:
  """A row of the table, from figures of a step and those of timm's."""
  from vit_jax.sharding import topologies

  accelerator = topologies.find_accelerator(found["device"])
  mfu = None
  if accelerator is not None:
    mfu = found["flops"] / found["seconds"] / accelerator.flops_per_device
  return {
    "model": what,
    "batch": batch,
    "engine": engine,
    "images_per_second": batch / found["seconds"],
    "mfu": mfu,
    "ratio_to_timm": timm and timm["seconds"] / found["seconds"],
    **found,
  }


def line(row: dict[str, Any]) -> str:
  def cell(value: float | None, form: str, width: int) -> str:
    return ("-" if value is None else form.format(value)).rjust(width)

  cells = [
    f"{row['model']:18}",
    f"{row['batch']:5}",
    f"{row['engine']:10}",
    cell(row["peak_bytes"] and row["peak_bytes"] / 2**30, "{:.1f}", 5),
    f"{row['images_per_second']:9.1f}",
    cell(row["mfu"], "{:.0%}", 4),
    cell(row["ratio_to_timm"], "{:.2f}", 5),
  ]
  return "  ".join([*cells, row["version"]])


def rows_of(arguments: Any) -> Iterator[dict[str, Any]]:
  """Measures, prints and gives the rows of what does not fail."""

  def shown(*values: Any) -> dict[str, Any]:
    made = row(*values)
    print(line(made), flush=True)
    for part, spent in made["milliseconds_by_part"].items():
      print(f"  {spent:8.2f} ms  {part}", flush=True)
    return made

  batches = [int(batch) for batch in arguments.batches.split(",")]
  models = [*filter(None, arguments.models.split(","))]
  for model, batch in itertools.product(models, batches):
    what, timm = [f"--models={model}"], None
    engines = [f"ours:{kind}" for kind in arguments.attention.split(",")]
    for engine in ["timm", *engines]:
      found = measured(engine, what, batch, arguments)
      timm = found if engine == "timm" else timm
      if found:
        yield shown(model, engine, found, batch, timm)
  for recipe, batch in itertools.product(arguments.recipe, batches):
    what = ["--models=", f"--recipe={recipe}"]
    if found := measured("ours", what, batch, arguments):
      yield shown(recipe, "ours", found, batch, None)


def measure_here(arguments: Any) -> dict[str, Any]:
  """Figures of the engine, model or recipe and batch of the command."""
  smoke, batch = arguments.smoke, int(arguments.batches)
  engine, _, attention = arguments.engine.partition(":")
  ours = (
    config(arguments.models, batch, attention or "xla", smoke)
    if arguments.models
    else recipe_config(*arguments.recipe, batch, smoke)
  )
  if engine == "timm":
    return time_timm(ours, arguments.steps, smoke)
  return time_ours(ours, arguments.steps, arguments.parts)


def main() -> None:
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--models", default="S/16,B/16,L/16")
  parser.add_argument(
    "--batches", default="128,256,512", help="Images of a step."
  )
  parser.add_argument("--attention", default="cudnn,xla,flash")
  parser.add_argument("--recipe", action="append")
  parser.add_argument("--steps", type=int, default=30)
  parser.add_argument("--parts", action="store_true")
  parser.add_argument("--smoke", action="store_true")
  parser.add_argument("--output", help="JSON file for the figures.")
  parser.add_argument("--engine", help=argparse.SUPPRESS)
  arguments = parser.parse_args()
  if arguments.engine:
    print(json.dumps(measure_here(arguments)))
    return
  given = _RECIPES if arguments.recipe is None else arguments.recipe
  arguments.recipe = [*filter(None, given)]
  if arguments.smoke:
    arguments.batches, arguments.steps, arguments.attention = "4", 2, "xla"
    arguments.models = "Ti/16"
  if problem := missing(arguments.smoke):
    sys.exit(problem)
  heads = ["model or recipe".ljust(18), "batch", "engine".ljust(10), "  GiB"]
  print("  ".join([*heads, " images/s", " MFU", "ratio"]), flush=True)
  rows = []
  for found in rows_of(arguments):
    rows.append(found)
    if arguments.output:
      text = json.dumps(rows, indent=2)
      pathlib.Path(arguments.output).write_text(text + "\n")
  if not rows:
    sys.exit("Nothing could be measured.")


if __name__ == "__main__":
  main()
