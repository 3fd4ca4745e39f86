"""The paper's TPUv3-core-days, compared with the compiler's estimates for ours.

  python benchmarks/paper_cost_check.py [--rows=H/14,...] [--output=JSON]

Compiles the shipped configs of Table 2's three Vision Transformers for a pod
of TPU v3 and multiplies the estimated step by the steps of the run and by the
cores. Minutes to half an hour a row; needs libtpu, no TPU. What the paper's
figure holds beyond steps of training, such as evaluation and waiting for data,
is not in the estimate.
"""

import argparse
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from vit_jax.aot import topology as topology_lib  # noqa: E402
from vit_jax.config import experiment_file, resolve  # noqa: E402

# Config, its arguments, and TPUv3-core-days of Table 2.
ROWS = {
  "H/14 JFT-300M": ("vit_h14_jft.py", None, 2500),
  "L/16 JFT-300M": ("pretrain.py", "model=L/16,data=jft", 680),
  "L/16 ImageNet-21k": ("pretrain.py", "model=L/16,data=i21k", 230),
}
_HEADER = (
  "row                 steps  cycles    step     core-days  paper  ratio"
)


def measure(name: str, topology: topology_lib.Topology) -> dict[str, float]:
  """Compiles a row's config; returns its figures."""
  from vit_jax.aot import step_compilation, xla_flags

  file, arguments, paper = ROWS[name]
  config = resolve.resolve(
    experiment_file.load(str(ROOT / "configs" / file), arguments)
  )
  found = step_compilation.compile_step(
    config,
    topology,
    xla_flags.options(topology.device_kind, config.mesh),
  )
  if found.estimate is None:
    raise SystemExit(f"{name} does not fit on {topology}.")
  return {
    **found.record(),
    "row": name,
    "total_steps": found.parts.total_steps,
    "core_days": found.estimate.device_days,
    "paper_core_days": paper,
  }


def line(row: dict[str, float]) -> str:
  """The figures of a row under `_HEADER`."""
  return (
    f"{row['row']:18}  {row['total_steps']:>7}"
    f"  {row['estimated_cycles'] / 1e6:5.1f} M"
    f"  {1e3 * row['estimated_step_seconds']:4.0f} ms"
    f"  {row['core_days']:9.0f}  {row['paper_core_days']:5}"
    f"  {row['core_days'] / row['paper_core_days']:5.2f}"
  )


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--topology", default="v3:16x16")
  parser.add_argument("--rows", default=",".join(ROWS))
  parser.add_argument("--output", help="JSON file for the figures.")
  arguments = parser.parse_args()
  wanted = arguments.rows.split(",")
  names = [n for n in ROWS if any(n.startswith(start) for start in wanted)]
  if not names:
    sys.exit(f"--rows={arguments.rows} names none of {', '.join(ROWS)}.")
  topology = topology_lib.parse(arguments.topology)
  topology_lib.prepare_environment()
  rows = []
  print(_HEADER, flush=True)
  for name in names:
    rows.append(measure(name, topology))
    print(line(rows[-1]), flush=True)
  if arguments.output:
    text = json.dumps({"topology": str(topology), "rows": rows}, indent=2)
    pathlib.Path(arguments.output).write_text(text + "\n")


if __name__ == "__main__":
  main()
