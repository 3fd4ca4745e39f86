"""Makes a dataset ready: downloads it, indexes it, or checks every image.

Examples:
  python -m vit_jax.prepare cifar10 --data_dir=DIR
  python -m vit_jax.prepare folder --data_dir=DIR --check

A TFDS dataset that is not in the data directory is downloaded and prepared in
ArrayRecord format; TFRecord files that are there are indexed. 'digits' is
written; an image folder and generated data need no preparation. --check reads
and decodes every image and names all that cannot be.
"""

import sys
import time
from collections.abc import Sequence

import numpy as np
from absl import flags

from vit_jax import command_line
from vit_jax.data import folder, sources
from vit_jax.errors import UserError

_SECONDS_BETWEEN_LINES = 10.0


def define_flags() -> None:
  flags.DEFINE_string(
    "data_dir",
    None,
    "Where datasets are, for 'folder' the folder that holds train/; by default"
    " TFDS_DATA_DIR, then ~/tensorflow_datasets.",
  )
  flags.DEFINE_bool("check", False, "Read and decode every image.")
  flags.DEFINE_string("split", "all", "Split that is looked at.")
  flags.DEFINE_string("image_key", "image", "Feature checked.")
  flags.DEFINE_string("label_key", "label", "Feature checked.")


def main(argv: Sequence[str]) -> None:
  if len(argv) != 2:
    raise UserError(
      "Name one dataset, as in: python -m vit_jax.prepare cifar10"
      " --data_dir=DIR"
    )
  dataset = argv[1]
  sources.check(dataset)
  if dataset == "folder" and flags.FLAGS.data_dir is None:
    raise UserError("Name the image folder with --data_dir=DIR.")
  print(_prepare(dataset, flags.FLAGS.data_dir))
  if flags.FLAGS.check:
    _check(_open(dataset))


def _prepare(dataset: str, data_dir: str | None) -> str:
  """Prepares a dataset; returns a line about it."""
  kind = dataset.partition(":")[0]
  if kind == "digits":
    from vit_jax.data.digits import source as digits

    return f"digits is ready in {digits.prepare(data_dir)}."
  if kind in ("folder", "generated"):
    source = _open(dataset)
    return (
      f"{dataset} needs no preparation: {source.num_examples} images in"
      f" {source.num_classes} classes."
    )
  from vit_jax.data import tfds_prepare

  return tfds_prepare.prepare(dataset, data_dir)


def _open(dataset: str) -> sources.Source:
  if dataset == "folder":
    # Damaged files are for the check to find, all of them at once.
    return folder.scan(flags.FLAGS.split, flags.FLAGS.data_dir)
  return sources.open_source(
    dataset,
    flags.FLAGS.split,
    data_dir=flags.FLAGS.data_dir,
    image_key=flags.FLAGS.image_key,
    label_key=flags.FLAGS.label_key,
  )


def _check(source: sources.Source) -> None:
  """Raises a UserError that names every image that cannot be decoded."""
  from vit_jax.data import integrity

  problems = []
  last_line = time.monotonic()
  for looked_at, problem in integrity.unreadable(
    source, np.arange(source.num_examples)
  ):
    if problem:
      problems.append(problem)
    if time.monotonic() - last_line > _SECONDS_BETWEEN_LINES:
      last_line = time.monotonic()
      print(f"{looked_at} of {source.num_examples} checked", file=sys.stderr)
  if problems:
    raise integrity.report(problems, source.num_examples, source.num_examples)
  print(f"All {source.num_examples} images can be read.")


if __name__ == "__main__":
  define_flags()
  command_line.run(main)
