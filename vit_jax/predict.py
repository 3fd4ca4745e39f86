"""Classifies images, or predicts the numbers that a checkpoint has learned.

  python -m vit_jax.predict --checkpoint=runs/photos cat.jpg holiday/
  python -m vit_jax.predict --checkpoint=B_16.npz --top_k=3 --json '*.png'
  python -m vit_jax.predict --checkpoint=clip-vit-base-patch32 \\
      --classes="a cat,a dog,a red car" *.jpg

CHECKPOINT is a workdir (its newest step is used), one of its checkpoints/STEP,
a published .npz, .safetensors or .pth file, or a Hugging Face directory. Images
are files, folders (searched recursively) and glob patterns. They are
preprocessed as in the checkpoint's evaluations. Classes have the names stored
in the checkpoint, or those of --class_names: 'imagenet', 'imagenet21k'
(Google's 21,843), 'imagenet22k' (the 21,841 of Microsoft's and Facebook's
heads), 'cifar10', 'cifar100', or a file with one per line. Otherwise they are
numbers.

A checkpoint with a text tower, CLIP or SigLIP, takes --classes: texts separated
by commas, a file with one per line, or one of those lists. Texts are used
unchanged; --templates=clip80 inserts each into CLIP's 80 sentences,
--templates="a photo of a {}." into this one. SigLIP scores each text
independently: its probabilities do not add up to one.

A checkpoint that was trained with objective.loss=mse or mae predicts numbers,
in the units of its training data, under the names of their columns.

A file that is not an image is reported on stderr, the others are classified,
and the exit code is 1. --csv prints a table of path, rank, label, name and
probability, or of path and numbers, and --json one document:

  {"checkpoint": PATH, "step": NUMBER or null, "preprocess": OPS,
   "activation": "softmax" or "sigmoid",
   "images": [{"path": PATH, "predictions":
     [{"label": NUMBER, "name": NAME or null, "probability": NUMBER}, ...]}],
   "failed": [{"path": PATH, "problem": SENTENCE}, ...]}

If numbers are predicted, "activation" is "none" and each of the "images" has
"numbers": {NAME: NUMBER, ...}.
"""

import csv
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from absl import flags

from vit_jax import command_line
from vit_jax.errors import UserError
from vit_jax.printable import on_one_line

if TYPE_CHECKING:
  import numpy as np

  from vit_jax.evaluators.classifier import Prediction


def define_flags() -> None:
  flags.DEFINE_string("checkpoint", None, f"{command_line.CHECKPOINT_HELP}.")
  flags.DEFINE_string(
    "classes",
    None,
    "Texts to compare images with, separated by commas, or a file with one per"
    " line.",
  )
  flags.DEFINE_multi_string(
    "templates",
    ["{}"],
    "Sentence with {} for the text of a class; clip80, clip7 and cifar18 are"
    " CLIP's. Repeat the flag for several.",
  )
  flags.DEFINE_string(
    "tokenizer", None, "Tokenizer for --classes; by default the checkpoint's."
  )
  flags.DEFINE_integer(
    "top_k", 5, "Number of classes shown for each image.", lower_bound=1
  )
  flags.DEFINE_string(
    "class_names",
    None,
    "Names of the head's classes: a file with one per line, or 'imagenet',"
    " 'imagenet21k', 'imagenet22k', 'cifar10' or 'cifar100'.",
  )
  flags.DEFINE_bool("json", False, "Print one JSON document.")
  flags.DEFINE_bool("csv", False, "Print a CSV table.")


def main(argv: Sequence[str]) -> int:
  from vit_jax.data import image_files

  # We report a broken file in one sentence; TensorFlow would print a page.
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
  if not flags.FLAGS.checkpoint:
    raise UserError(command_line.NO_CHECKPOINT)
  if len(argv) < 2:
    raise UserError(
      "No image was named: give files, folders or glob patterns, as in:"
      " python -m vit_jax.predict --checkpoint=PATH cat.jpg"
    )
  chosen = [name for name in ("json", "csv") if flags.FLAGS[name].value]
  if len(chosen) > 1:
    raise UserError("--json and --csv are two forms of the answer; give one.")
  form = chosen[0] if chosen else "text"
  return predict(
    flags.FLAGS.checkpoint,
    image_files.find(argv[1:]),
    top_k=flags.FLAGS.top_k,
    form=form,
    class_names=flags.FLAGS.class_names,
    classes=flags.FLAGS.classes,
    templates=flags.FLAGS.templates,
    tokenizer=flags.FLAGS.tokenizer,
  )


def predict(
  checkpoint: str,
  paths: Sequence[str],
  *,
  top_k: int = 5,
  form: str = "text",
  class_names: str | None = None,
  classes: str | None = None,
  templates: Sequence[str] = ("{}",),
  tokenizer: str | None = None,
) -> int:
  """Prints the most probable classes of image files, or their numbers.

  Args:
    checkpoint: Path of a checkpoint in any format.
    paths: Paths of the images.
    top_k: Number of classes printed for each image.
    form: 'text', 'csv' or 'json'.
    class_names, classes, templates, tokenizer: As for `Classifier`.

  Returns:
    The exit code.

  Raises:
    UserError: Any error from `Classifier`.
  """
  from vit_jax.pretrained import inference

  use = inference.read(checkpoint)
  if use.weights.predicts_numbers and not (class_names or classes):
    from vit_jax.evaluators.regressor import Regressor

    regressor = Regressor(checkpoint, use=use)
    heads = ("path", *regressor.names)
    rows = regressor.numbers(paths)

    def show(row: "np.ndarray") -> _Shown:
      return _numbers(regressor.named(row))

    activation = use.weights.activation
  else:
    from vit_jax.evaluators.classifier import Classifier

    classifier = Classifier(
      checkpoint,
      class_names=class_names,
      classes=classes,
      templates=templates,
      tokenizer=tokenizer,
      use=use,
    )
    heads = ("path", "rank", "label", "name", "probability")
    rows = classifier.probabilities(paths)

    def show(row: "np.ndarray") -> _Shown:
      return _classes(classifier.best(row, top_k))

    activation = classifier.activation
  predicted, failed = [], []
  table = csv.writer(sys.stdout, lineterminator="\n")
  if form == "csv":
    table.writerow(heads)
  for file, row in rows:
    if row is None:
      print(f"error: {on_one_line(file.problem)}", file=sys.stderr, flush=True)
      failed.append({"path": file.path, "problem": file.problem})
      continue
    shown = show(row)
    if form == "json":
      predicted.append({"path": file.path, **shown.json})
    elif form == "csv":
      table.writerows((file.path, *cells) for cells in shown.rows)
      sys.stdout.flush()
    else:
      print("\n".join((on_one_line(file.path), *shown.lines)), flush=True)
  if form == "json":
    document = {
      "checkpoint": checkpoint,
      "step": use.step,
      "preprocess": use.weights.preprocess,
      "activation": activation,
      "images": predicted,
      "failed": failed,
    }
    print(json.dumps(document, indent=2))
  return command_line.EXIT_BAD_INPUT if failed else 0


class _Shown(NamedTuple):
  """Predictions for an image in each output format."""

  lines: Sequence[str]
  rows: Sequence[tuple[Any, ...]]
  json: Mapping[str, Any]


def _classes(best: "Sequence[Prediction]") -> _Shown:
  lines = []
  for label, name, probability in best:
    name = f"class {label}" if name is None else on_one_line(name)
    lines.append(f"  {probability:7.2%}  {name}")
  rows = [
    (rank, label, name, f"{probability:.6g}")
    for rank, (label, name, probability) in enumerate(best, start=1)
  ]
  return _Shown(lines, rows, {"predictions": [one._asdict() for one in best]})


def _numbers(numbers: Mapping[str, float]) -> _Shown:
  texts = [f"{value:.6g}" for value in numbers.values()]
  width = max(map(len, texts))
  lines = [
    f"  {text:>{width}}  {on_one_line(name)}"
    for name, text in zip(numbers, texts, strict=True)
  ]
  return _Shown(lines, [tuple(texts)], {"numbers": dict(numbers)})


if __name__ == "__main__":
  define_flags()
  command_line.run(main)
