"""Sets of accepted labels from a file, in place of the labels of a source.

The file is a JSON list of lists of classes, such as ImageNet's ReaL labels
(google-research/reassessed-imagenet). List i, from 0, belongs to the image
whose file is called ..._val_ and i + 1 in eight digits, wherever in the dataset
it stands: ILSVRC2012_val_00000001.JPEG is the first. An empty list says that no
class is right; an evaluation leaves such an image out.
"""

import dataclasses
import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from etils import epath

from vit_jax import buckets
from vit_jax.data.sources import FileNamingSource, Source
from vit_jax.errors import UserError

_NUMBER = re.compile(r"_val_(\d{8})\.\w+")


@dataclasses.dataclass(frozen=True)
class LabelSets:
  """What a file of label sets says.

  Attributes:
    path: of the file.
    key: the config key that names it, for messages.
    labels: int32 [n, max_labels], two wide at least, padded with -1.
    digest: of the content.
  """

  path: str
  key: str
  labels: np.ndarray
  digest: str


def read(path: str, *, key: str) -> LabelSets:
  """Reads a file of label sets.

  Raises:
    UserError: it cannot be read, or is no list of lists of classes.
  """
  buckets.check(path)
  start = f"{key} = {path!r}"
  try:
    text = epath.Path(path).expanduser().read_text()
    sets = json.loads(text)
  except OSError as error:
    raise UserError(
      f"{start} cannot be read ({error.strerror or error}); name a JSON file of"
      " label lists, such as ImageNet's real.json."
    ) from None
  except (ValueError, RecursionError):
    sets = None
  if not isinstance(sets, list) or not sets:
    raise UserError(f"{start} is no JSON list of label lists, [[3], [7, 8]].")
  for number, accepted in enumerate(sets):
    if not _are_classes(accepted):
      raise UserError(
        f"{start}: entry {number} (counted from 0) is no list of classes, such"
        " as [7, 8] or []."
      )
  # Two wide at least: an example of one label has no other meaning than a
  # class, and here there may be none.
  width = max(2, *map(len, sets))
  labels = np.full((len(sets), width), -1, np.int32)
  for row, accepted in zip(labels, sets, strict=True):
    row[: len(accepted)] = accepted
  digest = hashlib.sha256(labels.tobytes()).hexdigest()[:16]
  return LabelSets(path, key, labels, digest)


def _are_classes(value: Any) -> bool:
  return isinstance(value, list) and all(
    type(label) is int and 0 <= label < 2**31 for label in value
  )


def relabel(source: Source, sets: LabelSets) -> "Relabelled":
  """The examples of a source with the labels of a file.

  Raises:
    UserError: its files have no numbers, or it lacks classes of the file.
  """
  start = f"{sets.key} = {sets.path!r}"
  if not isinstance(source, FileNamingSource):
    raise UserError(
      f"{start} goes by the names of image files, which this dataset does not"
      " have; take imagenet2012 or an image folder."
    )
  highest = int(sets.labels.max())
  if highest >= source.num_classes:
    raise UserError(
      f"{start} has class {highest}, the dataset {source.num_classes} classes;"
      " the labels are of another dataset, or class folders are missing."
    )
  relabelled = Relabelled(source, sets)
  relabelled.rows(np.zeros(1, np.int64))  # The first file speaks for the rest.
  return relabelled


@dataclasses.dataclass(frozen=True)
class Relabelled:
  """A source with other labels; attributes as in `sources.Source`."""

  source: FileNamingSource
  sets: LabelSets

  @property
  def num_examples(self) -> int:
    return self.source.num_examples

  @property
  def num_classes(self) -> int:
    return self.source.num_classes

  @property
  def class_names(self) -> tuple[str, ...] | None:
    return self.source.class_names

  @property
  def max_labels(self) -> int:
    return self.sets.labels.shape[1]

  @property
  def fingerprint(self) -> str:
    return f"{self.source.fingerprint}:labels:{self.sets.digest}"

  @property
  def image_shape(self) -> tuple[int, int, int] | None:
    return self.source.image_shape

  def read(self, ids: np.ndarray) -> dict[str, np.ndarray]:
    """See `sources.Source.read`."""
    return {
      "image": self.source.read(ids)["image"],
      "label": self.sets.labels[self.rows(ids)],
    }

  def names(self, ids: np.ndarray) -> list[str]:
    """See `sources.Source.names`."""
    return self.source.names(ids)

  def rows(self, ids: np.ndarray) -> Sequence[int]:
    """The entries of the file that belong to these records.

    Raises:
      UserError: naming a file that has no number, or none of the file's.
    """
    rows = []
    for name in self.source.file_names(ids):
      match = _NUMBER.search(name)
      if match is None:
        raise UserError(
          f"{self.sets.key} = {self.sets.path!r} goes by numbers in the names"
          " of image files, such as ILSVRC2012_val_00000001.JPEG, and"
          f" {name!r} has none."
        )
      rows.append(int(match[1]) - 1)
      if not 0 <= rows[-1] < len(self.sets.labels):
        raise UserError(
          f"{self.sets.key} = {self.sets.path!r} has"
          f" {len(self.sets.labels)} entries, none for the file {name!r}."
        )
    return rows
