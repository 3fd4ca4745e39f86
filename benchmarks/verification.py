"""Cost of comparing a checkpoint with its manifest, relative to restoring.

  python benchmarks/verification.py [--rounds=5] [--output=JSON]

Saves a ViT-B/16 with Adam, filled with random bits, then verifies and restores
it in turns from a warm cache. Prints the median seconds of each and their
ratio; exits 1 if verifying takes more than half of the time of restoring.
"""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from vit_jax import trees
from vit_jax.checkpoint import manifest
from vit_jax.checkpoint.store import CheckpointStore
from vit_jax.config import defaults, resolve
from vit_jax.data import facts
from vit_jax.training import experiment

MAX_RATIO = 0.5


def seconds(function: Callable[..., Any], *args: Any) -> float:
  start = time.perf_counter()
  jax.block_until_ready(function(*args))
  return time.perf_counter() - start


def random_state() -> tuple[Any, Any]:
  """The abstract state of a B/16 with Adam, and one of random bits.

  What is saved must not compress.
  """
  config = defaults.default_config()
  config.update(total_steps=1)
  config.model.update(variant="B/16", image_size=224)
  config.train.dataset = "generated:classes=1000,size=224,examples=8"
  config.train.batch_size = 8
  resolved = resolve.resolve(config)
  found = facts.without_data(resolved)
  abstract = experiment.build(resolved, found).abstract_state

  def fill(name: str, leaf: jax.ShapeDtypeStruct) -> jax.Array:
    if not leaf.ndim:
      return jax.device_put(jnp.zeros((), leaf.dtype), leaf.sharding)
    bits = jax.random.normal(jax.random.key(len(name)), leaf.shape)
    return jax.device_put(bits.astype(leaf.dtype), leaf.sharding)

  return abstract, trees.map_named(fill, abstract)


def measure(workdir: pathlib.Path, rounds: int) -> dict[str, float]:
  """Seconds of writing a manifest, of verifying and of restoring."""
  abstract, state = random_state()
  store = CheckpointStore(workdir)
  store.save(1, state, {})
  store.close()
  del state
  step = workdir / "checkpoints" / "1"
  store = CheckpointStore(workdir)
  taken: dict[str, list[float]] = {"write": [], "verify": [], "restore": []}
  for _ in range(rounds):
    taken["write"].append(seconds(manifest.write, step))
    taken["verify"].append(seconds(manifest.damage, step))
    taken["restore"].append(seconds(store.restore, 1, abstract))
  store.close()
  size = sum(path.stat().st_size for path in step.rglob("*"))
  medians = {name: statistics.median(times) for name, times in taken.items()}
  ratio = medians["verify"] / medians["restore"]
  return {"bytes": size, **medians, "verify_per_restore": ratio}


def main() -> int:
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--rounds", type=int, default=5)
  parser.add_argument("--output", type=pathlib.Path)
  arguments = parser.parse_args()
  with tempfile.TemporaryDirectory() as directory:
    found = measure(pathlib.Path(directory), arguments.rounds)
  print(
    f"{found['bytes'] / 1e9:.2f} GB: manifest written in"
    f" {found['write']:.2f} s, verified in {found['verify']:.2f} s, restored in"
    f" {found['restore']:.2f} s: {found['verify_per_restore']:.0%} of the"
    f" restore (at most {MAX_RATIO:.0%})"
  )
  if arguments.output:
    arguments.output.write_text(json.dumps(found, indent=2) + "\n")
  return int(found["verify_per_restore"] > MAX_RATIO)


if __name__ == "__main__":
  sys.exit(main())
