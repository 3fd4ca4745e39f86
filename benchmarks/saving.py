"""Seconds that a save blocks training, compared with Orbax's own default.

  python benchmarks/saving.py [--arrays=400] [--side=64] [--devices=4]

Small float32 arrays are on all simulated devices of a CPU, like replicated
parameters. The baseline is Orbax's default handler of arrays, with which every
replica writes a slice of each; ours is that of a run's checkpoints.
"""

import argparse
import os
import pathlib
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--arrays", type=int, default=400)
parser.add_argument("--side", type=int, default=64)
parser.add_argument("--devices", type=int, default=4)
parser.add_argument("--saves", type=int, default=5)


def blocked_seconds(store, state: dict, saves: int) -> float:
  """The median of the seconds until a save returns; the first is left out."""
  seconds = []
  for step in range(1, saves + 2):
    start = time.perf_counter()
    store.save(step, state, {})
    seconds.append(time.perf_counter() - start)
    store.wait()
  return statistics.median(seconds[1:])


def main() -> None:
  options = parser.parse_args()
  os.environ["JAX_PLATFORMS"] = "cpu"
  os.environ["JAX_NUM_CPU_DEVICES"] = str(options.devices)
  import jax
  import jax.numpy as jnp
  from jax.sharding import NamedSharding, PartitionSpec
  from orbax.checkpoint import type_handlers

  from vit_jax.checkpoint.store import CheckpointStore

  mesh = jax.make_mesh((options.devices,), ("data",))
  array = jax.device_put(
    jnp.ones((options.side, options.side)),
    NamedSharding(mesh, PartitionSpec()),
  )
  state = {str(number): array + number for number in range(options.arrays)}
  as_it_comes = type_handlers.get_type_handler(jax.Array)
  seconds = {}
  for name in ("ours", "as it comes"):
    with tempfile.TemporaryDirectory() as directory:
      store = CheckpointStore(directory)
      if name == "as it comes":
        type_handlers.register_type_handler(
          jax.Array, as_it_comes, override=True
        )
      seconds[name] = blocked_seconds(store, state, options.saves)
      store.close()
  ours, theirs = seconds.values()
  print(
    f"{options.arrays} arrays of {4 * options.side**2 / 1024:.0f} kB on"
    f" {options.devices} devices: {ours:.2f} s; Orbax as it comes:"
    f" {theirs:.2f} s; ratio {ours / theirs:.2f}"
  )


if __name__ == "__main__":
  main()
