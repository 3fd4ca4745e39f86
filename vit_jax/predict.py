"""Classifies images, with a checkpoint's head or by words.

  python -m vit_jax.predict --checkpoint=runs/photos cat.jpg holiday/
  python -m vit_jax.predict --checkpoint=B_16.npz --top_k=3 --json '*.png'
  python -m vit_jax.predict --checkpoint=clip-vit-base-patch32 \\
      --classes="a cat,a dog,a red car" *.jpg

CHECKPOINT is a workdir (the newest step is read), one of its checkpoints/STEP,
a published .npz, .safetensors or .pth file, or a Hugging Face directory. Images
are files, folders with all folders below them, and glob patterns. They are
prepared as in the checkpoint's evaluations. Classes have names where the
checkpoint knows them, and numbers elsewhere.

A checkpoint with a text tower, CLIP or SigLIP, takes --classes: texts divided
by commas, a file with one in each line, or the names of 'imagenet', 'cifar10'
or 'cifar100'. Texts are taken as they are; --templates=clip80 puts each into
CLIP's 80 sentences, --templates="a photo of a {}." into this one. SigLIP says
of each text whether it fits: its probabilities do not add up to one.

A file that is no image is reported on stderr, the others are classified, and
the exit code is 1. --json prints one document:

  {"checkpoint": PATH, "step": NUMBER or null, "preprocess": OPS,
   "activation": "softmax" or "sigmoid",
   "images": [{"path": PATH, "predictions":
     [{"label": NUMBER, "name": NAME or null, "probability": NUMBER}, ...]}],
   "failed": [{"path": PATH, "problem": SENTENCE}, ...]}
"""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from absl import flags

from vit_jax import command_line
from vit_jax.errors import UserError
from vit_jax.printable import on_one_line


def define_flags() -> None:
  flags.DEFINE_string(
    "checkpoint",
    None,
    "Workdir, one of its checkpoints/STEP, .npz, .safetensors, .pth or Hugging"
    " Face directory.",
  )
  flags.DEFINE_string(
    "classes",
    None,
    "Texts that images are compared with, divided by commas, or a file with one"
    " in each line.",
  )
  flags.DEFINE_multi_string(
    "templates",
    ["{}"],
    "Sentence with {} for the text of a class; clip80, clip7 and cifar18 are"
    " CLIP's. Repeat it for several.",
  )
  flags.DEFINE_string(
    "tokenizer", None, "Tokenizer of --classes; by default the checkpoint's."
  )
  flags.DEFINE_integer(
    "top_k", 5, "Number of classes shown for each image.", lower_bound=1
  )
  flags.DEFINE_bool("json", False, "Print one JSON document.")


def main(argv: Sequence[str]) -> int:
  from vit_jax.data import image_files

  # A broken file gets a sentence from us; TensorFlow would print a page.
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
  if not flags.FLAGS.checkpoint:
    raise UserError("No checkpoint was named: give --checkpoint=PATH.")
  if len(argv) < 2:
    raise UserError(
      "No image was named: give files, folders or glob patterns, as in:"
      " python -m vit_jax.predict --checkpoint=PATH cat.jpg"
    )
  return predict(
    flags.FLAGS.checkpoint,
    image_files.find(argv[1:]),
    top_k=flags.FLAGS.top_k,
    as_json=flags.FLAGS.json,
    classes=flags.FLAGS.classes,
    templates=flags.FLAGS.templates,
    tokenizer=flags.FLAGS.tokenizer,
  )


def predict(
  checkpoint: str,
  paths: Sequence[str],
  *,
  top_k: int = 5,
  as_json: bool = False,
  classes: str | None = None,
  templates: Sequence[str] = ("{}",),
  tokenizer: str | None = None,
) -> int:
  """Prints the most probable classes of image files.

  Args:
    checkpoint: Path of a checkpoint of any form.
    paths: Paths of the images.
    top_k: Number of classes printed for each image.
    as_json: Prints one JSON document instead of tables.
    classes: Texts that images are compared with, as of `--classes`.
    templates: Sentences that each text is put into.
    tokenizer: Path of the tokenizer; None: the checkpoint's.

  Returns:
    The exit code.

  Raises:
    UserError: The checkpoint cannot be read, has no head, or cannot compare
      images with texts.
  """
  from vit_jax import registry
  from vit_jax.evaluators import prediction
  from vit_jax.pretrained import inference

  use = inference.read(checkpoint)
  words, activation = None, use.weights.activation
  names = use.weights.class_names
  if classes is not None:
    from vit_jax.evaluators import words as words_lib

    words = words_lib.read(
      use, checkpoint, classes, template=templates, tokenizer=tokenizer
    )
    names, activation = words.names, words_lib.activation(use)
  elif registry.FAMILIES.get(use.weights.model.name).has_text:
    raise UserError(
      f"{checkpoint} classifies by words: say between which, as in"
      ' --classes="a cat,a dog".'
    )
  elif use.weights.model.num_classes is None:
    raise UserError(
      f"{checkpoint} has no head, so it gives features and no classes."
      " Fine-tune it first: --config=configs/finetune_folder.py"
      f" --config.init_from={checkpoint}."
    )
  predicted, failed = [], []
  for file, probabilities in prediction.predict(use, paths, words):
    if probabilities is None:
      print(f"error: {on_one_line(file.problem)}", file=sys.stderr, flush=True)
      failed.append({"path": file.path, "problem": file.problem})
      continue
    if not np.isfinite(probabilities).all():
      raise UserError(
        f"{checkpoint} gives probabilities that are not numbers; its parameters"
        " are not those of a trained network."
      )
    best = list(_best(probabilities, names, top_k))
    if as_json:
      predicted.append({"path": file.path, "predictions": best})
    else:
      print(_table(file.path, best), flush=True)
  if as_json:
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


def _best(
  probabilities: np.ndarray, names: Sequence[str] | None, top_k: int
) -> Iterator[dict[str, Any]]:
  """The most probable classes; of equal ones, the lower label first."""
  for label in np.argsort(-probabilities, kind="stable")[:top_k].tolist():
    is_named = names is not None and label < len(names)
    yield {
      "label": label,
      "name": names[label] if is_named else None,
      "probability": float(probabilities[label]),
    }


def _table(path: str, best: Sequence[dict[str, Any]]) -> str:
  lines = [on_one_line(path)]
  for row in best:
    name = row["name"]
    name = f"class {row['label']}" if name is None else on_one_line(name)
    lines.append(f"  {row['probability']:7.2%}  {name}")
  return "\n".join(lines)


if __name__ == "__main__":
  define_flags()
  command_line.run(main)
