"""The input DIR/{train,val,validation,test}/CLASS/*.{jpg,jpeg,png,webp,bmp}."""

import dataclasses
import hashlib
import os
from collections.abc import Mapping, Sequence

import numpy as np

from vit_jax.data import folder
from vit_jax.data.building import class_names
from vit_jax.data.building.contract import Inputs
from vit_jax.data.building.image_file import ImageFile


@dataclasses.dataclass(frozen=True)
class FolderPlaces:
  """The image files of one split; see `contract.Places`."""

  root: str
  split: str
  pairs: Sequence[tuple[str, str]]
  labels: Mapping[str, int]

  def __len__(self) -> int:
    return len(self.pairs)

  def places(self, ids: np.ndarray) -> list[ImageFile]:
    """See `contract.Places.places`."""
    real_root = os.path.realpath(self.root)
    return [
      ImageFile(
        f"{self.root}/{self.split}/{name}/{file}",
        real_root,
        f"{name}/{file}",
        (self.labels[name],),
      )
      for name, file in (self.pairs[i] for i in ids)
    ]


def read(root: str, names: Sequence[str] | None) -> Inputs:
  """Lists an image folder and looks into no file.

  Args:
    root: the folder that holds train/.
    names: of all classes, in the order of their labels; None: those that are
      there, sorted.

  Raises:
    UserError: as `folder.find_images`; a class is not among `names`.
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
      split: FolderPlaces(root, split, pairs, labels)
      for split, pairs in files.items()
    },
    class_names=ordered,
    num_classes=len(ordered),
    max_labels=1,
    identity=listing.hexdigest(),
  )
