"""Prints speeds as ratios to a named baseline, measured in the same process.

  python -m vit_jax.benchmark input --config=configs/finetune_folder.py \\
      --config.data_dir=DIR

  python -m vit_jax.benchmark step --config=configs/benchmark.py

input: images per second read, decoded and augmented, against a plain unseeded
tf.data pipeline with the same ops; for a config with train.views, against one
pipeline per crop, each of which decodes the image again. step: the train step
against a straightforward Flax network, and the training loop, with data and
logging, against the bare step. The baselines are in vit_jax/benchmarking/.
"""

import contextlib
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

from absl import flags

from vit_jax import checks, command_line, records
from vit_jax.config import resolve, schema
from vit_jax.errors import UserError


def define_flags() -> None:
  command_line.define_config()
  flags.DEFINE_integer(
    "rounds",
    10,
    "Number of rounds; each times ours and the baseline in turn.",
    lower_bound=1,
  )
  flags.DEFINE_string(
    "output", None, "JSON file for the result, which is also printed."
  )


def main(argv: Sequence[str]) -> int:
  if len(argv) != 2 or argv[1] not in _BENCHMARKS:
    given = " ".join(argv[1:]) or "nothing"
    raise UserError(
      f"A benchmark is one of {', '.join(_BENCHMARKS)}; {given} was given."
    )
  config = resolve.resolve(flags.FLAGS.config)
  checks.check(config)
  command_line.check_writable("output", flags.FLAGS.output)
  result = _BENCHMARKS[argv[1]](config)
  if flags.FLAGS.output:
    command_line.writing(records.write_json, flags.FLAGS.output, result)
  return 0


def compare_input(config: schema.Config) -> dict[str, Any]:
  """Measures the input pipeline of a config; see `input_benchmark.compare`."""
  from vit_jax.benchmarking import input_benchmark
  from vit_jax.data import features, sources
  from vit_jax.rundir.progress import CountProgress
  from vit_jax.sharding import mesh

  train, rounds = config.train, flags.FLAGS.rounds
  source = sources.open_source(
    train.dataset,
    train.split,
    data_dir=config.data_dir,
    image_key=train.image_key,
    label_key=train.label_key,
  )
  options = {
    "batch_size": train.batch_size,
    "seed": config.seed,
    "mesh": mesh.create_mesh(config.mesh),
    "rounds": rounds,
  }
  with contextlib.closing(CountProgress()) as progress:
    options["show"] = lambda done: progress.show("rounds", done, rounds)
    if train.views:
      baseline, key = "a pipeline for each crop", "apart_images_per_second"
      result = input_benchmark.compare_views(
        source, features.parse(config), **options
      )
    else:
      baseline, key = "plain tf.data", "plain_images_per_second"
      result = input_benchmark.compare(
        source,
        preprocess=train.preprocess,
        image_size=config.model.image_size,
        **options,
      )
    progress.show("rounds", rounds, rounds)
  low, high = min(result["ratios"]), max(result["ratios"])
  print(
    f"input: {result['images_per_second']:.0f} images/s; {baseline}:"
    f" {result[key]:.0f}; ratio {result['ratio']:.2f}"
    f" ({low:.2f} to {high:.2f} in {len(result['ratios'])} rounds)"
  )
  if train.views:
    ours, apart = result["build_seconds"], result["apart_build_seconds"]
    print(
      f"first batch: after {ours:.1f} s; {baseline}: {apart:.1f} s; ratio"
      f" {ours / apart:.2f}"
    )
  return result


def compare_step(config: schema.Config) -> dict[str, Any]:
  """Measures the train step and the loop; see `benchmarking.step_benchmark`."""
  import jax

  from vit_jax.aot import xla_flags
  from vit_jax.benchmarking import step_benchmark

  rounds = flags.FLAGS.rounds
  # Compiled as in train.
  options = xla_flags.options(jax.devices()[0].device_kind, config.mesh)
  result = step_benchmark.measure_step(config, rounds=rounds, options=options)
  low, high = min(result["ratios"]), max(result["ratios"])
  print(
    f"step: {result['images_per_second']:.4g} images/s; ratio to a plain Flax"
    f" ViT {result['ratio']:.3f} ({low:.3f} to {high:.3f} in {rounds} rounds)"
  )
  if importlib.util.find_spec("tensorflow") is None:
    print("loop: not measured, its data pipeline needs tensorflow")
    return result
  result |= step_benchmark.measure_loop(
    config, rounds=max(1, rounds // 2), options=options
  )
  print(
    f"loop: {result['loop_ratio']:.3f} x the bare step, data wait"
    f" {result['data_wait_fraction']:.2%}"
  )
  return result


_BENCHMARKS: dict[str, Callable[[schema.Config], dict[str, Any]]] = {
  "input": compare_input,
  "step": compare_step,
}

if __name__ == "__main__":
  define_flags()
  command_line.run(main, config_flag="config")
