"""Memory and bytes of the train step on absent GPUs, and a plain network's.

  python benchmarks/gpu_bytes.py [--models=B/16,L/16] [--topology=h100:8]
      [--batch_per_gpu=128] [--plain=float32,bfloat16]
      [--set model.attention=xla] [--parts] [--output=JSON]

Compiles the step of configs/benchmark.py with 21,843 classes in bfloat16, then
the network of vit_jax.benchmarking that is written in Flax's own layers, with
the same loss, optimizer, batch and GPUs, once for each softmax dtype of
--plain. Bytes are what all kernels read and write, as `vit_jax.compile` counts
them; --parts says in which modules of our network, by the name of the last
operation of each kernel. Needs the extra gpu-compile and no GPU.
"""

import argparse
import collections
import json
import pathlib
import re
import sys
from typing import Any

ROOT = pathlib.Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import gpu_trace  # noqa: E402
import tpu_cycles  # noqa: E402

from vit_jax import text_tables  # noqa: E402
from vit_jax.aot import topology as topology_lib  # noqa: E402
from vit_jax.aot.gpus import OPTIONS, Hosts  # noqa: E402
from vit_jax.config import experiment_file, resolve, schema  # noqa: E402
from vit_jax.errors import UserError  # noqa: E402

_OURS = "ours"


def config(
  model: str, batch_size: int, overrides: dict[str, Any]
) -> schema.Config:
  """The benchmark's config with the classes of ImageNet-21k."""
  shipped = experiment_file.load(
    str(ROOT / "configs" / "benchmark.py"),
    f"model={model},batch={batch_size},dtype=bfloat16",
  ).to_dict()
  for key, value in ({"model.num_classes": 21_843} | overrides).items():
    *path, name = key.split(".")
    section = shipped
    for part in path:
      section = section.setdefault(part, {})
    section[name] = value
  return resolve.resolve(shipped)


def measure(
  experiment: schema.Config, hosts: Hosts, step: str
) -> dict[str, Any]:
  """Figures of our step, or of the plain one of a softmax dtype."""
  from vit_jax.aot import hlo_cost, hlo_text, memory, step_compilation
  from vit_jax.benchmarking import plain_step

  if step == _OURS:
    found = step_compilation.compile_step(experiment, hosts)
    peak, cost = found.hbm["total"], found.cost
    inside = parts_of(found.text)
  else:
    inside = {}
    whole = experiment.mesh.model_copy(update={"fsdp": 1})
    parts = step_compilation.build(
      experiment.model_copy(update={"mesh": whole}),
      topology_lib.devices(hosts),
    )
    program = plain_step.lower(parts, step).compile(compiler_options=OPTIONS)
    peak = memory.compiled_bytes(program, at_peak=True)["total"]
    cost = hlo_cost.cost(
      hlo_text.parse(program.as_text()),
      accelerator=hosts.accelerator,
      num_devices=hosts.num_devices,
      devices_per_host=hosts.gpus_per_host,
    )
  return {
    "step": step,
    "peak_bytes": peak,
    "moved_bytes": sum(cost.gpu_bytes.values()),
    "kernels": sum(cost.gpu_kernels.values()),
    "by_kernel": cost.by_kernel(),
    "seconds": cost.seconds,
    "parts": inside,
  }


def parts_of(text: str) -> dict[str, int]:
  """Bytes by kind of kernel, pass and module, of what is in no loop."""
  from vit_jax.aot import gpu_kernels, hlo_text

  module = hlo_text.parse(text)
  entry, found = module[module.entry], collections.Counter[str]()
  for instruction in entry:
    kernel = gpu_kernels.kernel(module, entry, instruction)
    if kernel is None:
      continue
    (name,) = re.findall(r'op_name="([^"]*)"', instruction.attributes) or [""]
    modules = gpu_trace.MODULES.findall(name)
    where = modules[-1] if modules else "elsewhere"
    way = "backward" if "transpose(" in name else "forward"
    found[f"{kernel.kind}, {way if modules else 'any'}, {where}"] += (
      kernel.num_bytes
    )
  return dict(found.most_common())


def row(model: str, found: dict[str, Any], ours: dict[str, Any]) -> list[str]:
  """Cells of a line; ratios are ours over the line's."""

  def ratio(key: str) -> str:
    return "" if found is ours else f"{ours[key] / found[key]:.3f}"

  return [
    model,
    found["step"],
    f"{found['peak_bytes'] / 2**30:.2f} GiB",
    ratio("peak_bytes"),
    f"{found['moved_bytes'] / 2**30:.1f} GiB",
    ratio("moved_bytes"),
    f"{found['kernels']:,}",
    f"{1e3 * found['seconds']:.1f} ms",
    ratio("seconds"),
  ]


def main() -> None:
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--models", default="B/16,L/16")
  parser.add_argument("--topology", default="h100:8")
  parser.add_argument("--batch_per_gpu", type=int, default=128)
  parser.add_argument("--plain", default="float32,bfloat16")
  parser.add_argument(
    "--set", type=tpu_cycles.pair, action="append", default=[]
  )
  parser.add_argument("--parts", action="store_true")
  parser.add_argument("--output", help="JSON file for the figures")
  arguments = parser.parse_args()
  hosts = topology_lib.parse(arguments.topology)
  if not isinstance(hosts, Hosts):
    sys.exit(f"--topology={hosts} is of TPUs; name GPUs, such as h100:8.")
  topology_lib.prepare_environment(hosts)
  overrides = {key: tpu_cycles.value(text) for key, text in arguments.set}
  batch_size = arguments.batch_per_gpu * hosts.num_devices
  rows = [
    ["model", "step", "peak", "of it", "moved", "of it"]
    + ["kernels", "at least", "of it"]
  ]
  results = []
  for model in arguments.models.split(","):
    experiment = config(model, batch_size, overrides)
    ours = None
    for step in [_OURS, *filter(None, arguments.plain.split(","))]:
      try:
        found = measure(experiment, hosts, step)
      except UserError as error:
        sys.exit(str(error))
      ours = ours or found
      rows.append(row(model, found, ours))
      results.append({"model": model, "topology": str(hosts), **found})
      if arguments.parts and found is ours:
        print(f"{model}, GiB:")
        for name, count in found["parts"].items():
          print(f"  {count / 2**30:6.2f}  {name}")
  print("\n".join(text_tables.aligned(rows, right=range(2, 9))))
  if arguments.output:
    text = json.dumps(results, indent=2)
    pathlib.Path(arguments.output).write_text(text + "\n")


if __name__ == "__main__":
  main()
