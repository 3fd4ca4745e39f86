"""Initialising a head from selected classes of a checkpoint's head."""

import dataclasses

import numpy as np
from etils import epath

from vit_jax.errors import UserError
from vit_jax.weights import flat, path_errors
from vit_jax.weights.contract import Weights

_HEAD = ("head/kernel", "head/bias")


def select(weights: Weights, path: str, num_classes: int | None) -> Weights:
  """Restricts a checkpoint's head to the classes in a file, in that order.

  This is how Swin's ImageNet-1k head starts from that of ImageNet-22k
  (microsoft/Swin-Transformer, data/map22kto1k.txt).

  Args:
    weights: Checkpoint with a linear head.
    path: Text file with one line per class of the new head: the index of a
      class of the checkpoint, from 0.
    num_classes: Number of classes of the new head; None if it has no head.

  Raises:
    UserError: The file cannot be read, has a line that is not a class of the
      checkpoint, or does not have one line per class; or the checkpoint has no
      head.
  """
  leaves = flat.flatten(weights.params)
  if _HEAD[0] not in leaves:
    raise UserError(
      f"config.init_classes = {path!r} chooses from the classes of"
      f" {weights.path}, which has no head; leave it unset."
    )
  known = leaves[_HEAD[0]].shape[-1]
  if num_classes is None:
    raise UserError(
      f"config.init_classes = {path!r} chooses the classes that a new head"
      " starts from, but this network has no linear head; leave it unset."
    )
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
  """Reads the classes that the lines name."""
  with path_errors.explained(path):
    data = epath.Path(path).expanduser().read_bytes()
  text = data.decode("utf-8", "replace")
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
