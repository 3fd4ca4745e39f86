"""Weak scaling: what a chip does as chips are added and its batch stays.

  python benchmarks/weak_scaling.py [--variant=B/16] [--batch_per_chip=32]

Compiles the step of configs/vit_h14_jft.py in another variant for TPU v4 from
16 to 1024 chips, with data parallelism and with parameters split (FSDP) over
16 chips. Layers are scanned: that compiles one layer only, and changes neither
FLOPs nor what is sent, though cycles. Needs libtpu, no TPU.
"""

import argparse
import json
import pathlib
import sys
from typing import Any

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from vit_jax.aot import topology as topology_lib  # noqa: E402
from vit_jax.config import experiment_file, resolve  # noqa: E402

TOPOLOGIES = ("v4:2x2x4", "v4:4x4x4", "v4:4x8x8", "v4:8x8x16")
# Chips that share the parameters.
FSDP = (1, 16)
_HEADER = (
  "chips  mesh      GFLOPs   HBM GiB  cycles  all-reduce  all-gather"
  "  reduce-scatter  other  exchanges"
)


def measure(
  variant: str, batch_per_chip: int, topology: topology_lib.Topology, fsdp: int
) -> dict[str, Any]:
  """Compiles for a topology; returns a chip's figures."""
  from vit_jax.aot import step_compilation, xla_flags

  path = ROOT / "configs" / "vit_h14_jft.py"
  config = experiment_file.load(str(path), None)
  config.model.update(variant=variant, scan_layers=True)
  config.train.batch_size = batch_per_chip * topology.num_chips
  config.mesh.fsdp = fsdp
  resolved = resolve.resolve(config)
  found = step_compilation.compile_step(
    resolved,
    topology,
    xla_flags.options(topology.device_kind, resolved.mesh),
  )
  return {**found.record(), "fsdp": fsdp}


def line(row: dict[str, Any]) -> str:
  """The figures of a row under `_HEADER`."""
  mesh = f"{row['num_devices'] // row['fsdp']}x{row['fsdp']}"
  hbm = row["hbm_bytes_per_device"]["total"] / 2**30
  if not row["fits"]:
    return (
      f"{row['num_devices']:5}  {mesh:8}  needs {hbm:.2f} GiB: does not fit"
    )
  sent = {kind: one["bytes"] for kind, one in row["collectives"].items()}
  named = [
    sent.pop(kind, 0) / 2**20
    for kind in ("all-reduce", "all-gather", "reduce-scatter")
  ]
  other = sum(sent.values()) / 2**20
  return (
    f"{row['num_devices']:5}  {mesh:8}  {row['flops_per_device'] / 1e9:6.0f}"
    f"  {hbm:8.2f}  {row['estimated_cycles'] / 1e6:4.1f} M"
    f"  {named[0]:6.1f} MiB  {named[1]:6.1f} MiB  {named[2]:10.1f} MiB"
    f"  {other:5.1f}  {1e3 * row['estimated_collective_seconds']:6.3f} ms"
  )


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--variant", default="B/16")
  parser.add_argument("--batch_per_chip", type=int, default=32)
  parser.add_argument("--output", help="JSON file for the figures.")
  arguments = parser.parse_args()
  topology_lib.prepare_environment()
  rows = []
  print(_HEADER, flush=True)
  for fsdp in FSDP:
    for name in TOPOLOGIES:
      topology = topology_lib.parse(name)
      rows.append(
        measure(arguments.variant, arguments.batch_per_chip, topology, fsdp)
      )
      print(line(rows[-1]), flush=True)
  if arguments.output:
    pathlib.Path(arguments.output).write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
  main()
