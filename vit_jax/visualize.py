"""Draws what a network has learned: filters, positions, attention, features.

  python -m vit_jax.visualize --checkpoint=runs/photos --output=seen cat.jpg
  python -m vit_jax.visualize --checkpoint=B_16.npz --output=seen 'photos/*'

CHECKPOINT is a workdir, one of its checkpoints/STEP, a published .npz,
.safetensors or .pth file, or a Hugging Face directory. A workdir's newest step
is shown, and how the figures changed over its steps; keep more steps with
--config.checkpoint.keep_every_steps. Images are files, folders (searched
recursively) and glob patterns, preprocessed as in the checkpoint's evaluations;
attention distances are means over all of them, and the first --shown are
displayed. Without images, only filters and position embeddings are drawn.

--output is a directory for a PNG file per figure, numbers.npz with the values,
and index.html. It must not exist or must be empty: nothing is overwritten.
"""

import contextlib
import fnmatch
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from absl import flags
from etils import epath

from vit_jax import command_line, records
from vit_jax.errors import UserError

if TYPE_CHECKING:
  from vit_jax.pretrained.inference import Inference


def define_flags() -> None:
  flags.DEFINE_string("checkpoint", None, f"{command_line.CHECKPOINT_HELP}.")
  flags.DEFINE_string("output", None, "Directory for the figures.")
  flags.DEFINE_integer(
    "shown",
    6,
    "Number of images to show; the means are over all.",
    lower_bound=1,
  )
  flags.DEFINE_integer(
    "steps",
    6,
    "Number of steps of a workdir to compare, evenly spread; 1: none.",
    lower_bound=1,
  )


def main(argv: Sequence[str]) -> int:
  # We report a broken file in one sentence; TensorFlow would print a page.
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
  given = flags.FLAGS
  if not given.checkpoint:
    raise UserError(command_line.NO_CHECKPOINT)
  if not given.output:
    raise UserError("No directory was named for the figures: --output=DIR.")
  _check_free(given.output)
  paths: list[str] = []
  if argv[1:]:
    from vit_jax.data import image_files

    paths = image_files.find(argv[1:])
  return visualize(
    given.checkpoint,
    given.output,
    paths,
    num_shown=given.shown,
    num_steps=given.steps,
  )


def visualize(
  checkpoint: str,
  output: str,
  paths: Sequence[str],
  *,
  num_shown: int = 6,
  num_steps: int = 6,
) -> int:
  """Writes the figures of a checkpoint and their page.

  Args:
    checkpoint: Path of a checkpoint in any format.
    output: Directory that does not exist or is empty.
    paths: Paths of image files; any that is not an image is reported on stderr.
    num_shown: Number of images shown.
    num_steps: Number of a workdir's steps to compare.

  Returns:
    The exit code.

  Raises:
    UserError: The checkpoint cannot be read, or `output` has files or cannot
      be written to.
  """
  from vit_jax.inspection import network as networks
  from vit_jax.inspection import sections
  from vit_jax.pretrained import inference
  from vit_jax.report.inspection import page

  _check_free(output)
  use = inference.read(checkpoint)
  network = networks.of_weights(use.weights)
  # Checks that it can be written to before the work, not after.
  command_line.writing(_make, output, None)
  images, shown, failed = _read_images(use, paths, num_shown)
  found = [sections.parameters(network)]
  found += sections.of_images(network, images, num_shown=num_shown)
  found += sections.of_pretraining(use.weights, images, num_shown=num_shown)
  found += sections.over_training(
    checkpoint, images, num_shown=num_shown, num_steps=num_steps
  )
  files = page.files(
    found,
    title=_title(use),
    lead=_lead(use, checkpoint, len(images)),
    paths=shown,
  )
  command_line.writing(_write, output, files)
  print(f"wrote {epath.Path(output) / page.FILE} and {len(files) - 1} files")
  return command_line.EXIT_BAD_INPUT if failed else 0


# As `records` names them.
_HALF_WRITTEN = f".*.{'[0-9a-f]' * 8}.partial"


def _check_free(output: str) -> None:
  """Checks that nothing would be overwritten; removes what a kill has left."""
  from vit_jax.weights import path_errors

  path = epath.Path(output)
  with path_errors.explained(output):
    if not path.exists():
      return
    found = list(path.iterdir()) if path.is_dir() else []
    is_free = path.is_dir() and all(
      fnmatch.fnmatchcase(one.name, _HALF_WRITTEN) and one.is_file()
      for one in found
    )
    for one in found if is_free else ():
      one.unlink(missing_ok=True)
  if not is_free:
    raise UserError(
      f"{output} exists, and nothing is overwritten; remove it, or name another"
      " --output."
    )


def _read_images(
  use: "Inference", paths: Sequence[str], num_shown: int
) -> tuple[list[np.ndarray], list[str], bool]:
  """Reads pixels, the paths shown, and whether any files failed."""
  images: list[np.ndarray] = []
  shown: list[str] = []
  failed = False
  if not paths:
    return images, shown, failed
  from vit_jax.data import image_files, spec

  preprocess = spec.check(
    use.weights.preprocess,
    use.weights.model.image_size,
    where="preprocess",
    train=False,
  )
  for files in image_files.read(paths, preprocess, batch_size=32):
    for file in files:
      if file.pixels is None:
        print(f"error: {file.problem}", file=sys.stderr, flush=True)
        failed = True
        continue
      images.append(file.pixels)
      if len(shown) < num_shown:
        shown.append(file.path)
  return images, shown, failed


def _title(use: "Inference") -> str:
  from vit_jax.config import names

  return names.describe(use.weights.model)


def _lead(use: "Inference", checkpoint: str, num_images: int) -> str:
  from vit_jax.report import formatting

  step = "" if use.step is None else f", step {use.step:,}"
  images = (
    formatting.counted(num_images, "image") if num_images else "no images"
  )
  return (
    f"What a network has learned and looks at: {checkpoint}{step}, with"
    f" {images}."
  )


def _make(path: str, value: object) -> None:
  del value
  epath.Path(path).mkdir(parents=True, exist_ok=True)


def _write(path: str, value: object) -> None:
  """Writes files that appear once all are written, or not at all."""
  assert isinstance(value, dict)
  with contextlib.ExitStack() as stack:
    for name, data in value.items():
      file = records.replacing(epath.Path(path) / name)
      stack.enter_context(file).write_bytes(data)


if __name__ == "__main__":
  define_flags()
  command_line.run(main)
