"""The parts of a network on which its train step spends a TPU's cycles.

  python benchmarks/tpu_cycle_parts.py --row=L/16 [--depths=2,3]
      [--set model.attention=pallas] [--output=JSON]

Compiles a row of benchmarks/tpu_cycles.py and sorts the compiler's estimates by
the module in whose name each operation was traced. Beside them stand the cycles
that the part's matrix products would take at the chip's peak. A fusion counts
for its last operation, which may draw others in: a sum over tokens may well end
up in the product before it. FLOPs inside of our own kernels are not known.

With --depths two shallow networks are compiled instead of the whole one, and
what a layer adds is added up. Needs libtpu, no TPU.
"""

import argparse
import collections
import dataclasses
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import tpu_cycles  # noqa: E402

from vit_jax import text_tables  # noqa: E402
from vit_jax.aot import topology as topology_lib  # noqa: E402
from vit_jax.models.vit import sizes  # noqa: E402

# The first that is found in the name of an operation.
_PARTS = (
  ("MLPs", r"/MlpBlock_\d+/"),
  ("projections", r"/MultiHead\w+/(query|key|value|out)/"),
  ("attention", r"/MultiHead\w+/"),
  ("norms", r"/(LayerNorm_\d+|encoder_norm)/"),
  ("head and loss", r"/(head|pre_logits)/|jvp\((?!.*Transformer).*loss"),
  ("pixels and embedding", r"embed|add_prefix|normalize|batch\["),
  ("rest of the network", r"jvp\("),
  ("update", r"train_step|state|_where|update"),
)
_OP_NAME = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')
_OTHER = "copies and others"


@dataclasses.dataclass
class Part:
  """Sums over the operations of a part.

  Attributes:
    cycles: By the compiler's estimate.
    flops: FLOPs of matrix products.
  """

  cycles: float = 0.0
  flops: float = 0.0


def parts(
  row: tpu_cycles.Baseline, depth: int | None, overrides: dict[str, object]
) -> dict[str, Part]:
  """Compiles a row, of so many layers or whole; returns its parts."""
  from vit_jax.aot import hlo_cost, hlo_text

  found = tpu_cycles.compiled(row, depth, overrides, {})
  accelerator = topology_lib.parse(row.topology).accelerator
  sums: dict[str, Part] = collections.defaultdict(Part)
  module = hlo_text.parse(found.text)
  for one, cost in hlo_cost.arithmetic(module, accelerator=accelerator):
    name = _OP_NAME.search(one.attributes)
    part = sums[part_of(name[1] if name else "")]
    part.cycles += cost.cycles
    part.flops += cost.flops
  return sums


def part_of(op_name: str) -> str:
  """The part of a network or step that an operation is of."""
  return next((p for p, regex in _PARTS if re.search(regex, op_name)), _OTHER)


def measure(
  row: tpu_cycles.Baseline,
  depths: tuple[int, ...],
  overrides: dict[str, object],
) -> dict[str, Part]:
  """The parts of a whole network, or as if it were whole."""
  if not depths:
    return parts(row, None, overrides)
  shallow, deep = (parts(row, depth, overrides) for depth in depths)
  layers = sizes.vit(tpu_cycles.config(row, overrides).model).depth
  steps = (layers - depths[0]) / (depths[1] - depths[0])

  def whole(name: str, key: str) -> float:
    first, second = (getattr(one[name], key) for one in (shallow, deep))
    return first + steps * (second - first)

  return {
    name: Part(whole(name, "cycles"), whole(name, "flops"))
    for name in (*(name for name, _ in _PARTS), _OTHER)
  }


def table(found: dict[str, Part], flops_per_cycle: float) -> str:
  """Parts in the order of their cycles, and their sum."""
  rows = [("part", "cycles", "of all", "at peak", "beyond it")]
  ordered = sorted(found.items(), key=lambda one: -one[1].cycles)
  cycles = sum(part.cycles for part in found.values())
  flops = sum(part.flops for part in found.values())
  for name, part in [*ordered, ("sum", Part(cycles, flops))]:
    ideal = part.flops / flops_per_cycle
    rows.append(
      (
        name,
        f"{part.cycles / 1e6:.2f} M",
        f"{part.cycles / cycles:.1%}",
        f"{ideal / 1e6:.2f} M",
        f"{(part.cycles - ideal) / 1e6:.2f} M",
      )
    )
  return "\n".join(text_tables.aligned(rows, right=(1, 2, 3, 4)))


def main() -> None:
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--row", default="L/16", help="or 'H/14@v3:16x16'")
  parser.add_argument("--depths", type=tpu_cycles.depths, default=())
  parser.add_argument(
    "--set", type=tpu_cycles.pair, action="append", default=[]
  )
  parser.add_argument("--output", help="JSON file for the figures")
  arguments = parser.parse_args()
  topology_lib.prepare_environment()
  row = next(
    row
    for row in tpu_cycles.BASELINES
    if f"{row.variant}@{row.topology}".startswith(arguments.row)
  )
  overrides = {key: tpu_cycles.value(text) for key, text in arguments.set}
  found = measure(row, arguments.depths, overrides)
  accelerator = topology_lib.parse(row.topology).accelerator
  print(f"{row.variant} on {row.topology}, a chip:")
  print(table(found, accelerator.flops_per_device / accelerator.clock))
  if arguments.output:
    plain = {name: dataclasses.asdict(part) for name, part in found.items()}
    pathlib.Path(arguments.output).write_text(json.dumps(plain, indent=2))


if __name__ == "__main__":
  main()
