"""Prediction of numbers for image files by a checkpoint's head."""

import os
from collections.abc import Iterator, Sequence

import jax.numpy as jnp
import numpy as np

from vit_jax.data.image_files import ImageFile
from vit_jax.errors import UserError
from vit_jax.evaluators import file_outputs
from vit_jax.evaluators.file_outputs import Path
from vit_jax.models import build as models_build
from vit_jax.pretrained import inference


class Regressor:
  """Predicts numbers for image files as `python -m vit_jax.predict` does.

  Attributes:
    use: The checkpoint, with its preprocessing.
    names: Names of the numbers.

  Args:
    checkpoint: A workdir, one of its checkpoints/STEP, an .npz file or a
      Hugging Face directory.
    use: The checkpoint, if it has already been read.

  Raises:
    UserError: The checkpoint cannot be read, or does not predict numbers.

  Example:
    ages = vit_jax.Regressor("runs/ages")
    for numbers in ages("holiday/*.jpg"):
      print(numbers["age"])
  """

  def __init__(
    self, checkpoint: Path, *, use: inference.Inference | None = None
  ):
    self._checkpoint = os.fspath(checkpoint)
    self.use = use or inference.read(self._checkpoint)
    self.names = self.use.names
    weights = self.use.weights
    if not weights.predicts_numbers or not self.names:
      raise UserError(
        f"{self._checkpoint} predicts no numbers; use vit_jax.Classifier, or"
        " train it with config.objective.loss = 'mse'."
      )
    self._model = models_build.create(
      weights.model, num_classes=weights.model.num_classes
    )

  def __call__(self, images: Path | Sequence[Path]) -> list[dict[str, float]]:
    """Returns the numbers of each image by name, in the units of training.

    Args:
      images: Files, folders (searched recursively) and glob patterns.

    Raises:
      UserError: An image is missing or cannot be read; the message names it.
    """
    found = file_outputs.of_all(images, self.numbers)
    return [self.named(numbers) for numbers in found]

  def named(self, numbers: np.ndarray) -> dict[str, float]:
    """Returns the numbers of one image by name."""
    return dict(zip(self.names, map(float, numbers), strict=True))

  def numbers(
    self, paths: Sequence[str]
  ) -> Iterator[tuple[ImageFile, np.ndarray | None]]:
    """Predicts the numbers of image files.

    Yields:
      Each file in order, with float32 [numbers], or None if its `problem`
      describes why it cannot be read.

    Raises:
      UserError: The numbers are not finite.
    """
    return file_outputs.finite_rows(
      self.use, self._checkpoint, paths, self._predict, what="numbers"
    )

  def _predict(self, params, images):
    return self._model.apply({"params": params}, images).astype(jnp.float32)
