"""Prints a speed of ours as a ratio to a named baseline, measured beside it.

  python -m vit_jax.benchmark input --config=configs/finetune_folder.py \\
      --config.data_dir=DIR

input: images per second read, decoded and augmented, against a plain unseeded
tf.data pipeline of the same ops (vit_jax/data/plain_pipeline.py).
"""

from collections.abc import Callable, Sequence
from typing import Any

from absl import flags

from vit_jax import checks, command_line, records
from vit_jax.config import resolve, schema
from vit_jax.errors import UserError

_CONFIG = command_line.define_config()
_OUTPUT = flags.DEFINE_string(
  "output", None, "JSON file for the result, besides the terminal."
)


def main(argv: Sequence[str]) -> int:
  if len(argv) != 2 or argv[1] not in _BENCHMARKS:
    given = " ".join(argv[1:]) or "nothing"
    raise UserError(
      f"A benchmark is one of {', '.join(_BENCHMARKS)}; {given} was given."
    )
  config = resolve.resolve(_CONFIG.value)
  checks.check(config)
  result = _BENCHMARKS[argv[1]](config)
  if _OUTPUT.value:
    command_line.writing(records.write_json, _OUTPUT.value, result)
  return 0


def compare_input(config: schema.Config) -> dict[str, Any]:
  """Measures the input pipeline of a config; see `throughput.compare`."""
  from vit_jax.data import sources, throughput
  from vit_jax.sharding import mesh

  train = config.train
  result = throughput.compare(
    sources.open_source(
      train.dataset,
      train.split,
      data_dir=config.data_dir,
      image_key=train.image_key,
      label_key=train.label_key,
    ),
    preprocess=train.preprocess,
    image_size=config.model.image_size,
    batch_size=train.batch_size,
    seed=config.seed,
    mesh=mesh.create_mesh(config.mesh),
  )
  low, high = min(result["ratios"]), max(result["ratios"])
  print(
    f"input: {result['images_per_second']:.0f} images/s; plain tf.data:"
    f" {result['plain_images_per_second']:.0f}; ratio {result['ratio']:.2f}"
    f" ({low:.2f} to {high:.2f} in {len(result['ratios'])} rounds)"
  )
  return result


_BENCHMARKS: dict[str, Callable[[schema.Config], dict[str, Any]]] = {
  "input": compare_input
}

if __name__ == "__main__":
  command_line.run(main, config_flag="config")
