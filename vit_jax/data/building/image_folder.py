"""The input DIR/{train,val,validation,test}/CLASS/*.{jpg,jpeg,png,webp,bmp}."""

import hashlib
import os
from collections.abc import Mapping, Sequence

import numpy as np

from vit_jax.data import folder
from vit_jax.data.building import class_names
from vit_jax.data.building.contract import Example, Inputs, Split


def read(root: str, names: Sequence[str] | None) -> Inputs:
  """Lists an image folder and opens no file.

  Args:
    root: Folder that holds train/.
    names: Names of all classes, in the order of their labels; None: those
      found, sorted.

  Raises:
    UserError: As `folder.find_images`; or a class is not among `names`.
  """
  files = folder.find_images(root)
  found = {name for pairs in files.values() for name, _ in pairs}
  ordered = class_names.order(found, names, root)
  labels = {name: label for label, name in enumerate(ordered)}
  listing = hashlib.sha256()
  for split, pairs in sorted(files.items()):
    for pair in pairs:
      listing.update(os.fsencode("/".join((split, *pair))) + b"\0")
  return Inputs(
    splits={
      split: _split(root, split, pairs, labels)
      for split, pairs in files.items()
    },
    class_names=ordered,
    num_classes=len(ordered),
    max_labels=1,
    identity=listing.hexdigest(),
  )


def _split(
  root: str,
  split: str,
  pairs: Sequence[tuple[str, str]],
  labels: Mapping[str, int],
) -> Split:
  real_root = os.path.realpath(root)

  def examples(ids: np.ndarray) -> list[Example]:
    return [
      Example(
        name=f"{name}/{file}",
        labels=(labels[name],),
        path=f"{root}/{split}/{name}/{file}",
        root=real_root,
      )
      for name, file in (pairs[i] for i in ids)
    ]

  return Split(len(pairs), examples)
