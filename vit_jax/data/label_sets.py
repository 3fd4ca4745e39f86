"""Sets of accepted labels from a file, replacing the labels of a source.

The file is a JSON list of lists of classes, such as ImageNet's ReaL labels
(google-research/reassessed-imagenet). List i, from 0, belongs to the image with
a file name of ..._val_ and i + 1 in eight digits, at any position in the
dataset: ILSVRC2012_val_00000001.JPEG is the first. An empty list means that no
class is correct; evaluations ignore such images. TFDS's imagenet2012_real
stores the same labels with the images; this reads the file as published.
"""

import dataclasses
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np
import pydantic
from etils import epath

from vit_jax import buckets
from vit_jax.data.sources import Feature, Source, Wrapped
from vit_jax.errors import UserError

_Class = Annotated[int, pydantic.Field(ge=0, lt=2**31, strict=True)]
_SETS = pydantic.TypeAdapter(
  Annotated[list[list[_Class]], pydantic.Field(min_length=1)]
)
_NUMBER = re.compile(r"_val_(\d{8})\.\w+")


@dataclasses.dataclass(frozen=True)
class LabelSets:
  """The content of a file of label sets."""

  name: str  # Config key and path of the file, for messages.
  labels: np.ndarray  # int32 [n, max_labels >= 2], padded with -1.
  digest: str


def read(path: str, *, key: str) -> LabelSets:
  """Reads a file of label sets, named by a config key.

  Raises:
    UserError: It cannot be read, or is not a list of lists of classes.
  """
  buckets.check(path)
  name = f"{key} = {path!r}"
  try:
    sets = _SETS.validate_json(epath.Path(path).expanduser().read_text())
  except OSError as error:
    raise UserError(
      f"{name} cannot be read ({error.strerror or error}); name a JSON file of"
      " label lists, such as ImageNet's real.json."
    ) from None
  except pydantic.ValidationError as error:
    if place := error.errors()[0]["loc"]:
      raise UserError(
        f"{name}: entry {place[0]} (counted from 0) is not a list of classes,"
        " such as [7, 8] or []."
      ) from None
    raise UserError(
      f"{name} is not a JSON list of label lists, [[3], [7, 8]]."
    ) from None
  # At least two wide: an array of one label per example would mean that each
  # has a class, but here one may have none.
  width = max(2, *map(len, sets))
  labels = np.full((len(sets), width), -1, np.int32)
  for row, accepted in zip(labels, sets, strict=True):
    row[: len(accepted)] = accepted
  digest = hashlib.sha256(labels.tobytes()).hexdigest()[:16]
  return LabelSets(name, labels, digest)


def relabel(source: Source, sets: LabelSets) -> "Relabelled":
  """Returns the examples of a source with the labels of a file.

  Raises:
    UserError: Its files have no numbers, or classes of the file are missing.
  """
  highest = int(sets.labels.max())
  if highest >= source.num_classes:
    raise UserError(
      f"{sets.name} has class {highest}, the dataset {source.num_classes}"
      " classes; the labels are of another dataset, or class folders are"
      " missing."
    )
  relabelled = Relabelled(source, sets)
  relabelled.rows(np.zeros(1, np.int64))  # Checks the name of the first file.
  return relabelled


@dataclasses.dataclass(frozen=True)
class Relabelled(Wrapped):
  """A source with other labels; see `sources.Source`."""

  sets: LabelSets

  @property
  def features(self) -> Mapping[str, Feature]:
    label = dataclasses.replace(
      self.source.features["label"], max_labels=self.sets.labels.shape[1]
    )
    return {**self.source.features, "label": label}

  @property
  def fingerprint(self) -> str:
    return f"{self.source.fingerprint}:labels:{self.sets.digest}"

  def known_labels(self) -> None:
    return None

  def read(self, ids: np.ndarray) -> dict[str, np.ndarray]:
    labels = self.sets.labels[self.rows(ids)]
    return {**self.source.read(ids), "label": labels}

  def rows(self, ids: np.ndarray) -> Sequence[int]:
    """Returns the entries of the file that belong to these records.

    Raises:
      UserError: An image file, named in the message, has no number, or one
        beyond the label sets.
    """
    names = self.source.file_names(ids)
    if names is None:
      raise UserError(
        f"{self.sets.name} matches by the names of image files, which this"
        " dataset lacks; take imagenet2012 or an image folder."
      )
    rows = []
    for name in names:
      match = _NUMBER.search(name)
      if match is None:
        raise UserError(
          f"{self.sets.name} goes by numbers in the names of image files, such"
          f" as ILSVRC2012_val_00000001.JPEG, and {name!r} has none."
        )
      rows.append(int(match[1]) - 1)
      if not 0 <= rows[-1] < len(self.sets.labels):
        raise UserError(
          f"{self.sets.name} has {len(self.sets.labels)} entries, none for the"
          f" file {name!r}."
        )
    return rows
