"""Compiles the networks of the table of families for absent devices.

  python benchmarks/family_compiles.py --output=DIR [--topology=h100:8]
      [--models=Swin-T] [--list]

Each network of `vit_jax.tables families`, at its size of images, is compiled by
`vit_jax.compile` in bfloat16 with the step of configs/benchmark.py and 64
images a device, or half as many until it fits. The figures are kept in DIR,
from which a run that was stopped continues. At the end, and with --list at
once, DIR/compiled_families_h100.json, named after the accelerator, has what
`vit_jax.tables families` reads in vit_jax/paper. Needs the compiler of the
devices and none of them; `benchmarks/tpu_cycles_families.py` makes the figures
of TPUs, whose compiler takes hours for some of these.
"""

import argparse
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import compiling  # noqa: E402
from vit_jax.aot import topology as topology_lib  # noqa: E402
from vit_jax.paper import families  # noqa: E402

_IMAGES = (64, 32, 16)  # Of a device, tried in turn.


def networks(models: str) -> list[families.Result]:
  """One result of each network and size, those whose name has `models`."""
  found = {(r.name, r.image_size): r for r in families.RESULTS}
  return [r for r in found.values() if models in r.name]


def place(
  directory: pathlib.Path, result: families.Result, images: int, topology: str
) -> pathlib.Path:
  """The file of a network's figures, with so many images a device."""
  name = f"{result.name}-{result.image_size}-{images}-{topology}"
  name = re.sub(r"[^\w.-]+", "-", name)
  return directory / f"{name}.json"


def compile_once(
  result: families.Result, images: int, topology: str, path: pathlib.Path
) -> str:
  """Compiles a network's step; returns why that failed, or ""."""
  batch = images * topology_lib.parse(topology).num_devices
  config = f"model={result.name},batch={batch},dtype=bfloat16"
  overrides = [f"--config.model.image_size={result.image_size}"]
  if result.window_size:
    overrides += [f"--config.model.window_size={result.window_size}"]
  failure = compiling.compile_to(
    path, f"configs/benchmark.py:{config}", topology, *overrides
  )
  return failure.rpartition("\n")[-1]


def fitting(
  directory: pathlib.Path, result: families.Result, topology: str
) -> dict | None:
  """The figures with most images that fit, if there are any."""
  for images in _IMAGES:
    path = place(directory, result, images, topology)
    if path.exists() and (found := json.loads(path.read_text()))["fits"]:
      return found
  return None


def make(
  directory: pathlib.Path, result: families.Result, topology: str
) -> bool:
  """Compiles a network until it fits; whether that succeeded."""
  for images in _IMAGES:
    if fitting(directory, result, topology) is not None:
      return True
    path = place(directory, result, images, topology)
    if not path.exists():
      failure = compile_once(result, images, topology, path)
      print(
        f"{result.name}, {result.image_size} px, {images} images a device:"
        f" {failure or 'compiled'}",
        flush=True,
      )
      if failure:
        return False
  return fitting(directory, result, topology) is not None


def steps(directory: pathlib.Path, topology: str) -> list[dict]:
  """The rows for `vit_jax.tables families`, of the networks that fit."""
  rows = []
  for result in networks(""):
    found = fitting(directory, result, topology)
    if found is not None:
      rows.append(
        {
          "model": result.name,
          "step": "ours",
          "topology": found["topology"],
          "image_size": result.image_size,
          "batch_size": found["global_batch"],
          "chips": found["num_devices"],
          "memory": found["hbm_bytes_per_device"]["total"],
          "params": found["param_count"],
          "step_seconds": round(found["estimated_step_seconds"], 6),
        }
      )
  return rows


def main() -> None:
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--output", required=True, type=pathlib.Path)
  parser.add_argument("--topology", default="h100:8")
  parser.add_argument("--models", default="", help="part of their names")
  parser.add_argument("--list", action="store_true")
  arguments = parser.parse_args()
  arguments.output.mkdir(parents=True, exist_ok=True)
  wanted = networks(arguments.models)
  if not wanted:
    sys.exit(f"--models={arguments.models} is in no network's name.")
  missing = [
    f"{result.name}, {result.image_size} px"
    for result in wanted
    if not arguments.list
    and not make(arguments.output, result, arguments.topology)
  ]
  name = arguments.topology.partition(":")[0]
  path = arguments.output / f"compiled_families_{name}.json"
  path.write_text(
    json.dumps(steps(arguments.output, arguments.topology), indent=2) + "\n"
  )
  if missing:
    sys.exit(f"Not compiled, or too large: {'; '.join(missing)}.")


if __name__ == "__main__":
  main()
