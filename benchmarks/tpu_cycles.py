"""Estimated cycles of the train step on TPUs, compared with big_vision's.

  python benchmarks/tpu_cycles.py [--rows=S/16,B/16] [--depths=2,3]
      [--set model.softmax_dtype=bfloat16] [--option NAME=VALUE] [--output=JSON]

Compiles configs/vit_h14_jft.py as shipped, but for variant, classes, batch and
topology, and prints cycles and temporaries with their ratio to the baseline.
Whole networks take minutes to hours of a core each. With --depths two shallow
ones are compiled in their place, and the difference, the cost of a layer, is
added up: what all the others add is then no more than an estimate. Needs
libtpu, no TPU.
"""

import argparse
import ast
import dataclasses
import json
import pathlib
import sys
from typing import TYPE_CHECKING, Any

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from vit_jax.aot import topology as topology_lib  # noqa: E402
from vit_jax.config import experiment_file, resolve, schema  # noqa: E402
from vit_jax.errors import UserError  # noqa: E402
from vit_jax.models.vit import sizes  # noqa: E402

if TYPE_CHECKING:
  from vit_jax.aot import step_compilation


@dataclasses.dataclass(frozen=True)
class Baseline:
  """A row of the baseline table, and what is compiled to compare with it.

  big_vision's step for the same shapes with the softmax in bfloat16: bfloat16
  compute, Adam with a bfloat16 first moment, clipping to norm 1, sigmoid loss,
  nothing recomputed, parameters replicated; jax 0.10.2, libtpu 0.0.51.

  Attributes:
    variant: Variant of the model.
    classes: Number of classes of the head.
    batch_size: Global.
    topology: All its chips.
    cycles: Millions, estimated by the compiler.
    temporaries: GiB of a device's memory.
    float32: (cycles, temporaries) with the softmax in float32, if known.
  """

  variant: str
  classes: int
  batch_size: int
  topology: str
  cycles: float
  temporaries: float
  float32: tuple[float, float] | None = None


BASELINES = (
  Baseline("S/16", 1000, 1024, "v5e:4x4", 37.3, 1.70),
  Baseline("B/16", 21843, 4096, "v5e:8x8", 117.95, 3.51, (130.15, 3.70)),
  Baseline("L/16", 21843, 4096, "v5e:16x16", 90.75, 2.39, (100.97, 2.41)),
  Baseline("H/14", 21843, 4096, "v5e:16x16", 242.5, 5.62, (262.4, 5.74)),
  Baseline("H/14", 18291, 4096, "v3:16x16", 248.9, 2.82),
)
_HEADER = (
  "model  topology   softmax   depth    cycles  ratio  temporaries  ratio"
)


def config(row: Baseline, overrides: dict[str, Any]) -> schema.Config:
  """The shipped config with the row's shapes and values of dotted keys."""
  shipped = experiment_file.load(
    str(ROOT / "configs" / "vit_h14_jft.py"), None
  ).to_dict()
  changes = {
    "model.variant": row.variant,
    "model.num_classes": row.classes,
    "train.batch_size": row.batch_size,
    **overrides,
  }
  if "model.depth" in overrides:
    raise UserError("The rows are of whole networks; see --depths.")
  for key, value in changes.items():
    *path, name = key.split(".")
    section = shipped
    for part in path:
      section = section.setdefault(part, {})
    section[name] = value
  return resolve.resolve(shipped)


def compiled(
  row: Baseline,
  depth: int | None,
  overrides: dict[str, Any],
  options: dict[str, str],
) -> "step_compilation.Compilation":
  """Our step, compiled.

  Args:
    row: Shapes and topology.
    depth: Layers; None: the variant's.
    overrides: Values of dotted config keys.
    options: Options of the compiler, in addition to those of `train`.

  Raises:
    UserError: It does not fit.
  """
  from vit_jax.aot import step_compilation, xla_flags

  experiment = config(row, overrides)
  if depth is not None:
    model = experiment.model.model_copy(update={"depth": depth})
    experiment = experiment.model_copy(update={"model": model})
  topology = topology_lib.parse(row.topology)
  usual = xla_flags.options(topology.device_kind, experiment.mesh)
  found = step_compilation.compile_step(
    experiment, topology, {**usual, **options}
  )
  if found.cost is None:
    raise UserError(f"{row.variant} does not fit on {row.topology}.")
  if found.cost.uncosted:
    print(f"Not in the estimate: {dict(found.cost.uncosted)}", flush=True)
  return found


def figures(found: "step_compilation.Compilation") -> tuple[float, float, str]:
  """Cycles, bytes of temporaries and softmax dtype of a compiled step."""
  softmax_dtype = found.parts.config.model.softmax_dtype
  return found.cost.cycles, found.hbm["temporaries"], softmax_dtype


def measure(
  row: Baseline,
  depths: tuple[int, ...],
  overrides: dict[str, Any],
  options: dict[str, str],
) -> dict[str, Any]:
  """The figures of a row, of the whole network or as if it were whole."""
  if not depths:
    cycles, memory, dtype = figures(compiled(row, None, overrides, options))
  else:
    shallow, deep = depths
    (cycles, memory, dtype), (more_cycles, more_memory, _) = (
      figures(compiled(row, depth, overrides, options)) for depth in depths
    )
    whole = sizes.vit(config(row, overrides).model).depth
    layers = (whole - shallow) / (deep - shallow)
    cycles += layers * (more_cycles - cycles)
    memory += layers * (more_memory - memory)
  return {
    **dataclasses.asdict(row),
    "softmax_dtype": dtype,
    "depths": depths or None,
    "our_cycles": cycles,
    "our_temporaries": memory,
    **ratios(row, dtype, cycles, memory),
  }


def ratios(
  row: Baseline, softmax_dtype: str, cycles: float, memory: float
) -> dict[str, float]:
  """Ours over the baseline of the same softmax, or bfloat16's if none."""
  base_cycles, base_memory = row.cycles, row.temporaries
  if softmax_dtype == "float32" and row.float32 is not None:
    base_cycles, base_memory = row.float32
  return {
    "cycle_ratio": cycles / 1e6 / base_cycles,
    "memory_ratio": memory / 2**30 / base_memory,
    "cycle_ratio_to_bfloat16": cycles / 1e6 / row.cycles,
  }


def line(result: dict[str, Any]) -> str:
  """The figures of a row under `_HEADER`."""
  depths = result["depths"]
  depth = "whole" if depths is None else "+".join(map(str, depths))
  return (
    f"{result['variant']:5}  {result['topology']:9}"
    f"  {result['softmax_dtype']:8}  {depth:5}"
    f"  {result['our_cycles'] / 1e6:6.2f} M  {result['cycle_ratio']:5.3f}"
    f"  {result['our_temporaries'] / 2**30:7.2f} GiB"
    f"  {result['memory_ratio']:5.3f}"
  )


def pair(text: str) -> tuple[str, str]:
  key, equals, value = text.partition("=")
  if not equals:
    raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE.")
  return key, value


def value(text: str) -> Any:
  try:
    return ast.literal_eval(text)
  except (SyntaxError, ValueError):
    return text


def depths(text: str) -> tuple[int, ...]:
  try:
    shallow, deep = map(int, text.split(","))
  except ValueError:
    shallow = deep = 0
  if not 0 < shallow < deep:
    raise argparse.ArgumentTypeError(
      f"{text!r} is not two numbers of layers, the smaller first: 2,3."
    )
  return shallow, deep


def main() -> None:
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  names = [f"{row.variant}@{row.topology}" for row in BASELINES]
  parser.add_argument("--rows", default=",".join(names), help="or 'S/16,H/14'")
  parser.add_argument("--depths", type=depths, default=())
  parser.add_argument("--set", type=pair, action="append", default=[])
  parser.add_argument("--option", type=pair, action="append", default=[])
  parser.add_argument("--output", help="JSON file for the figures.")
  arguments = parser.parse_args()
  rows = [
    row
    for row, name in zip(BASELINES, names, strict=True)
    if any(name.startswith(start) for start in arguments.rows.split(","))
  ]
  if not rows:
    sys.exit(f"--rows={arguments.rows} names none of {', '.join(names)}.")
  overrides = {key: value(text) for key, text in arguments.set}
  topology_lib.prepare_environment()
  results = []
  print(_HEADER, flush=True)
  for row in rows:
    try:
      result = measure(row, arguments.depths, overrides, dict(arguments.option))
    except UserError as error:
      sys.exit(str(error))
    results.append(result)
    print(line(result), flush=True)
  if arguments.output:
    text = json.dumps(results, indent=2)
    pathlib.Path(arguments.output).write_text(text + "\n")


if __name__ == "__main__":
  main()
