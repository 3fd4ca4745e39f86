"""Classification of image files by a checkpoint's head or by texts."""

import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from vit_jax import registry, truncate
from vit_jax.data.image_files import ImageFile
from vit_jax.errors import UserError
from vit_jax.evaluators import file_outputs, prediction
from vit_jax.evaluators.file_outputs import Path
from vit_jax.pretrained import inference
from vit_jax.prompts import class_names as names_lib


class Prediction(NamedTuple):
  """A class predicted for an image.

  Attributes:
    label: Index of the class.
    name: Name of the class; None if the checkpoint does not store it.
    probability: From 0 to 1.
  """

  label: int
  name: str | None
  probability: float


class Classifier:
  """Classifies image files as `python -m vit_jax.predict` does.

  Attributes:
    use: The checkpoint, with its preprocessing.
    class_names: Names of the classes; None if unknown.
    activation: 'softmax', or 'sigmoid' for probabilities that do not sum to
      one.

  Args:
    checkpoint: A workdir, one of its checkpoints/STEP, an .npz, .safetensors or
      .pth file, or a Hugging Face directory.
    class_names: Names of the head's classes instead of the checkpoint's:
      'imagenet', 'imagenet21k' (Google's 21,843), 'imagenet22k' (the 21,841 of
      Microsoft's and Facebook's heads), 'cifar10', 'cifar100', or a file with
      one per line.
    classes: Texts that a checkpoint with a text tower compares images with,
      separated by commas, or a file with one per line.
    templates: Sentences into which each text is inserted.
    tokenizer: Path of the tokenizer of the texts; None for the checkpoint's.
    use: The checkpoint, if it has already been read.

  Raises:
    UserError: The checkpoint cannot be read, has no head, predicts numbers, or
      cannot compare images with texts; or the number of names is not the number
      of classes.

  Example:
    classify = vit_jax.Classifier("runs/photos")
    for best, *others in classify("holiday/*.jpg"):
      print(best.name, best.probability)
  """

  def __init__(
    self,
    checkpoint: Path,
    *,
    class_names: Path | None = None,
    classes: str | None = None,
    templates: Sequence[str] = ("{}",),
    tokenizer: str | None = None,
    use: inference.Inference | None = None,
  ):
    self._checkpoint = checkpoint = os.fspath(checkpoint)
    self.use = use = use or inference.read(checkpoint)
    words, self.activation = None, use.weights.activation
    self.class_names: Sequence[str] | None = use.weights.class_names
    if classes is not None:
      from vit_jax.evaluators import words as words_lib

      words = words_lib.read(
        use, checkpoint, classes, template=templates, tokenizer=tokenizer
      )
      self.class_names = words.names
      self.activation = words_lib.activation(use)
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
    elif use.weights.predicts_numbers:
      raise UserError(
        f"{checkpoint} predicts numbers, {truncate.first(use.names)}, and no"
        " classes; use vit_jax.Regressor, or python -m vit_jax.predict without"
        " names of classes."
      )
    if class_names is not None:
      self.class_names = self._named(os.fspath(class_names), by_words=words)
    self._function = prediction.function(use, words)

  def _named(self, source: str, *, by_words: Any) -> list[str]:
    if by_words is not None:
      raise UserError(
        f"class_names = {source!r} names the classes of a head, and classes"
        " are texts already; give one of them."
      )
    names = [one[0] for one in names_lib.read(source, key="class_names")]
    wanted = self.use.weights.model.num_classes
    if len(names) != wanted:
      raise UserError(
        f"class_names = {source!r} has {len(names)} names, and the head of"
        f" {self._checkpoint} has {wanted} classes; name each of them."
      )
    return names

  def __call__(
    self, images: Path | Sequence[Path], top_k: int = 5
  ) -> list[list[Prediction]]:
    """Returns the most probable classes of each image.

    Args:
      images: Files, folders (searched recursively) and glob patterns.
      top_k: Number of classes per image, the most probable first.

    Raises:
      UserError: An image is missing or cannot be read; the message names it.
    """
    found = file_outputs.of_all(images, self.probabilities)
    return [self.best(probabilities, top_k) for probabilities in found]

  def probabilities(
    self, paths: Sequence[str]
  ) -> Iterator[tuple[ImageFile, np.ndarray | None]]:
    """Computes the probabilities of all classes for image files.

    Yields:
      Each file in order, with float32 [classes], or None if its `problem`
      describes why it cannot be read.

    Raises:
      UserError: The probabilities are not finite.
    """
    return file_outputs.finite_rows(
      self.use, self._checkpoint, paths, self._function, what="probabilities"
    )

  def best(self, probabilities: np.ndarray, top_k: int) -> list[Prediction]:
    """Returns the most probable classes; ties are ordered by label."""
    names = self.class_names or ()
    order = np.argsort(-probabilities, kind="stable")[:top_k].tolist()
    return [
      Prediction(
        label,
        names[label] if label < len(names) else None,
        float(probabilities[label]),
      )
      for label in order
    ]
