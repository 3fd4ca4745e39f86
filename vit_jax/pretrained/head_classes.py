"""The classes of a checkpoint's head that those of a new head start from."""

import dataclasses

import numpy as np
from etils import epath

from vit_jax.errors import UserError
from vit_jax.weights import flat, path_errors
from vit_jax.weights.contract import Weights

_HEAD = ("head/kernel", "head/bias")


def select(weights: Weights, path: str, num_classes: int | None) -> Weights:
  """A checkpoint whose head has the classes that a file lists, in that order.

  Swin's head of ImageNet-1k starts so from that of ImageNet-22k
  (microsoft/Swin-Transformer, data/map22kto1k.txt).

  Args:
    weights: Checkpoint with a linear head.
    path: Text file with a line for each class of the new head: a class of
      the checkpoint's, counted from 0.
    num_classes: Classes of the new head.

  Raises:
    UserError: The file cannot be read, has a line that is no class of the
      checkpoint's, or another number of lines than there are classes; or the
      checkpoint has no head.
  """
  leaves = flat.flatten(weights.params)
  if _HEAD[0] not in leaves:
    raise UserError(
      f"config.init_classes = {path!r} chooses from the classes of"
      f" {weights.path}, which has no head; leave it unset."
    )
  known = leaves[_HEAD[0]].shape[-1]
  classes = _read(path, known, weights.path)
  if len(classes) != num_classes:
    raise UserError(
      f"config.init_classes = {path!r} has {len(classes)} lines, but the new"
      f" head has {num_classes} classes; give the list of this dataset, or set"
      f" config.model.num_classes = {len(classes)}."
    )
  for name in _HEAD:
    leaves[name] = np.asarray(leaves[name])[..., classes]
  model = weights.model.model_copy(update={"num_classes": num_classes})
  params = flat.unflatten(leaves)
  return dataclasses.replace(weights, params=params, model=model)


def _read(path: str, known: int, checkpoint: str) -> list[int]:
  """The classes that the lines name."""
  with path_errors.explained(path):
    text = epath.Path(path).read_bytes().decode("utf-8", "replace")
  classes = []
  for number, line in enumerate(text.splitlines(), 1):
    word = line.strip()
    if not (word.isascii() and word.isdigit() and int(word) < known):
      raise UserError(
        f"config.init_classes = {path!r}: line {number} is {word[:40]!r}, not"
        f" a class of {checkpoint}, which are 0 to {known - 1}; give a file"
        " with one number a line."
      )
    classes.append(int(word))
  return classes
