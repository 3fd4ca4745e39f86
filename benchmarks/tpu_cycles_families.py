"""Estimated cycles of the train step on TPUs, and of a straightforward network.

  python benchmarks/tpu_cycles_families.py [--models=Swin-T,ConvNeXt-T]
      [--by_stage] [--plain=float32,bfloat16] [--topology=v5e:8x8]
      [--batch=4096] [--set model.remat=full] [--output=JSON]

Compiles the step of configs/benchmark.py in bfloat16, then the network of
vit_jax.benchmarking that is written in Flax's own layers, with the same loss,
optimizer, batch and chips, once for each softmax dtype of --plain. Cycles are
counted in the same way for both, and both must have the same parameters.

Whole networks take minutes to hours of a core each. With --by_stage shallow
ones are compiled in their place: one with the fewest blocks that a stage has
all kinds of, and for each deeper stage one that has these twice. What they add
is added up, and what all the others add is then no more than an estimate.
Networks that differ in their depths alone, such as ConvNeXt-T and S or PVT's
b1 to b4, share the shallow ones of a command. DeiTs have no stages, and are
whole. Needs libtpu, no TPU. Our steps of the
JSON files are in vit_jax/paper/compiled_families_v5e.json, from which
`vit_jax.tables families` computes days of training.
"""

import argparse
import ast
import dataclasses
import json
import pathlib
import sys
from collections.abc import Callable
from typing import Any

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from vit_jax import registry, trees  # noqa: E402
from vit_jax.aot import topology as topology_lib  # noqa: E402
from vit_jax.config import experiment_file, resolve, schema  # noqa: E402
from vit_jax.errors import UserError  # noqa: E402

MODELS = ("DeiT-S/16", "Swin-T", "Swin-B", "ConvNeXt-T", "ConvNeXt-B")
# Family -> blocks of all kinds that a stage has: every other block of a Swin
# moves its windows.
_KINDS = {"swin": 2, "convnext": 1, "pvt": 1}
_OURS = "ours"
_HEADER = (
  "model       step           cycles  of plain   temporaries  of plain  of peak"
)


@dataclasses.dataclass(frozen=True)
class Figures:
  """The compiler's estimates of a device's share of a step.

  Attributes:
    cycles: Number of cycles.
    temporaries: Bytes of memory.
    params: Number of parameters of the network.
  """

  cycles: float
  temporaries: float
  params: int


def config(
  model: str, arguments: argparse.Namespace, depths: tuple[int, ...] | None
) -> schema.Config:
  """The config of a model, of other depths if some are given."""
  shipped = experiment_file.load(
    str(ROOT / "configs" / "benchmark.py"),
    f"model={model},batch={arguments.batch},dtype=bfloat16",
  ).to_dict()
  changes = dict(arguments.set)
  if depths is not None:
    changes["model.depths"] = depths
  for key, value in changes.items():
    *path, name = key.split(".")
    section = shipped
    for part in path:
      section = section.setdefault(part, {})
    section[name] = value
  return resolve.resolve(shipped)


def compiled(
  experiment: schema.Config, topology: topology_lib.Topology, step: str
) -> Figures:
  """Compiles our step, or the plain one of a softmax dtype.

  Raises:
    UserError: It does not fit.
  """
  from vit_jax.aot import (
    hlo_cost,
    hlo_text,
    memory,
    step_compilation,
    xla_flags,
  )
  from vit_jax.benchmarking import plain_step

  if step == _OURS:
    options = xla_flags.options(topology.device_kind, experiment.mesh)
    found = step_compilation.compile_step(experiment, topology, options)
    parts, cost, temporaries = found.parts, found.cost, found.hbm["temporaries"]
  else:
    whole = experiment.mesh.model_copy(update={"fsdp": 1})
    parts = step_compilation.build(
      experiment.model_copy(update={"mesh": whole}),
      topology_lib.devices(topology),
    )
    program = plain_step.lower(parts, step).compile()
    cost = hlo_cost.cost(
      hlo_text.parse(program.as_text()),
      accelerator=topology.accelerator,
      num_devices=topology.num_devices,
    )
    temporaries = memory.compiled_bytes(program)["temporaries"]
  if cost is None:
    raise UserError(f"{experiment.model.variant} does not fit on {topology}.")
  if cost.uncosted:
    print(f"Not in the estimate: {dict(cost.uncosted)}", flush=True)
  return Figures(
    cost.cycles,
    temporaries,
    trees.num_elements(parts.abstract_state.params),
  )


def measure(
  model: str,
  step: str,
  arguments: argparse.Namespace,
  known: dict[tuple[str, str], Figures],
) -> dict[str, Any]:
  """The figures of a step, of the whole network or as if it were whole.

  Args:
    model: A name.
    step: Ours, or the softmax dtype of a plain one.
    arguments: Of the command line.
    known: Figures of networks and steps, to which new ones are added.
  """
  topology = topology_lib.parse(arguments.topology)
  whole = config(model, arguments, None)

  def figures(depths: tuple[int, ...] | None) -> Figures:
    experiment = config(model, arguments, depths)
    of = (_network(experiment), step)
    if of not in known:
      known[of] = compiled(experiment, topology, step)
    if depths is not None:
      print(f"  {depths}: {known[of].cycles / 1e6:.2f} M", flush=True)
    return known[of]

  in_stages = arguments.by_stage and whole.model.name in _KINDS
  found = by_stage(whole, figures) if in_stages else figures(None)
  peak = topology.accelerator.flops_per_device / topology.accelerator.clock
  return {
    "model": model,
    "step": step,
    "topology": arguments.topology,
    "image_size": whole.model.image_size,
    "batch_size": arguments.batch,
    "chips": topology.num_devices,
    "by_stage": in_stages,
    **dataclasses.asdict(found),
    "step_seconds": found.cycles / topology.accelerator.clock,
    "share_of_peak": model_flops(whole, topology) / (peak * found.cycles),
  }


def _network(experiment: schema.Config) -> str:
  """The sizes and the other keys of a network, whatever its name."""
  family = registry.FAMILIES.get(experiment.model.name)
  keys = experiment.model.model_dump(exclude={"variant", "depths"})
  return repr((family.size(experiment.model), sorted(keys.items())))


def by_stage(
  whole: schema.Config, figures: Callable[[tuple[int, ...]], Figures]
) -> Figures:
  """The figures of shallow networks, added up to those of the whole one."""
  family = registry.FAMILIES.get(whole.model.name)
  depths, kinds = family.size(whole.model).depths, _KINDS[whole.model.name]
  shallow = (kinds,) * len(depths)
  base = figures(shallow)
  cycles, temporaries, params = dataclasses.astuple(base)
  for stage, depth in enumerate(depths):
    times = (depth - kinds) // kinds
    if not times:
      continue
    deeper = figures((*shallow[:stage], 2 * kinds, *shallow[stage + 1 :]))
    cycles += times * (deeper.cycles - base.cycles)
    temporaries += times * (deeper.temporaries - base.temporaries)
    params += times * (deeper.params - base.params)
  return Figures(cycles, temporaries, params)


def model_flops(whole: schema.Config, topology: topology_lib.Topology) -> float:
  """Model FLOPs of a device in a step, three times those of a forward pass."""
  from vit_jax.objectives import build

  images = whole.train.batch_size / topology.num_devices
  return 3 * images * build.forward_flops(whole, num_classes=1000)


def line(result: dict[str, Any], ours: dict[str, Any]) -> str:
  """The figures of a step under `_HEADER`; ratios are ours over its."""
  ratios = ("", "")
  if result is not ours:
    ratios = tuple(
      f"{ours[key] / result[key]:.3f}" for key in ("cycles", "temporaries")
    )
  return (
    f"{result['model']:10}  {result['step']:8}"
    f"  {result['cycles'] / 1e6:9.2f} M  {ratios[0]:>8}"
    f"  {result['temporaries'] / 2**30:7.2f} GiB  {ratios[1]:>8}"
    f"  {100 * result['share_of_peak']:5.1f} %"
  )


def _pair(text: str) -> tuple[str, Any]:
  key, equals, value = text.partition("=")
  if not equals:
    raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE.")
  try:
    return key, ast.literal_eval(value)
  except (SyntaxError, ValueError):
    return key, value


def main() -> None:
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--models", default=",".join(MODELS))
  parser.add_argument("--plain", default="float32,bfloat16")
  parser.add_argument("--by_stage", action="store_true")
  parser.add_argument("--topology", default="v5e:8x8")
  parser.add_argument("--batch", type=int, default=4096)
  parser.add_argument("--set", type=_pair, action="append", default=[])
  parser.add_argument("--output", help="JSON file for the figures.")
  arguments = parser.parse_args()
  topology_lib.prepare_environment()
  results, known = [], {}
  print(_HEADER, flush=True)
  for model in arguments.models.split(","):
    steps = [_OURS, *filter(None, arguments.plain.split(","))]
    if model.startswith("ConvNeXt"):
      steps = steps[:2]  # It has no softmax.
    ours = None
    for step in steps:
      try:
        result = measure(model, step, arguments, known)
      except UserError as error:
        sys.exit(str(error))
      ours = ours or result
      results.append(result)
      print(line(result, ours), flush=True)
      if arguments.output:  # Each takes minutes, and the next may fail.
        text = json.dumps(results, indent=2)
        pathlib.Path(arguments.output).write_text(text + "\n")


if __name__ == "__main__":
  main()
