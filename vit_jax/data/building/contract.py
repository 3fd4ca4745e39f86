"""Examples of an input, by number, and their classes."""

import abc
import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from vit_jax.data import folder_listing


class Readable(abc.ABC):
  """One record to write, from any kind of input; can be pickled.

  Attributes:
    name: Name of the record in the input.
    labels: Numbers of its classes, each once.
  """

  name: str
  labels: tuple[int, ...]

  @abc.abstractmethod
  def read(self) -> bytes:
    """Reads the encoded image.

    Raises:
      OSError, ValueError: It does not exist, or must not be read.
    """

  def captions(self) -> tuple[str, ...]:
    """Captions of the image; image files have none."""
    return ()


@dataclasses.dataclass(frozen=True)
class Example(Readable):
  """A record with its image in a file.

  Attributes:
    name: Class and file, or path, as in the input.
    labels: Numbers of its classes, each once.
    path: File that contains the image.
    root: Real path of the directory that `path` must not leave.
    offset: Position of the image in the file, bytes; -1 for an entry with the
      name of an image that is not a file.
    size: Bytes of the image; None for the whole file.
  """

  name: str
  labels: tuple[int, ...]
  path: str
  root: str
  offset: int = 0
  size: int | None = None

  def read(self) -> bytes:
    real = os.path.realpath(self.path)
    if not folder_listing.is_inside(real, self.root):
      raise OSError(f"leads to {real}, outside of {self.root}")
    # Reading from a pipe or a device would never end.
    if os.path.exists(real) and not os.path.isfile(real):
      raise OSError("is not a file")
    if self.offset < 0:
      raise OSError(f"is not a plain file in {self.path}")
    with open(real, "rb") as file:
      file.seek(self.offset)
      image = file.read(self.size)
    if self.size is not None and len(image) < self.size:
      raise OSError(f"{self.path} has become shorter")
    return image


@dataclasses.dataclass(frozen=True)
class Split:
  """The examples of a split, always in the same order.

  `examples` maps numbers, int64 [n], to examples; lists of files are long, so
  only those of a shard exist at a time.
  """

  num_examples: int
  examples: Callable[[np.ndarray], Sequence[Readable]]


@dataclasses.dataclass(frozen=True)
class Inputs:
  """All examples of an input.

  Attributes:
    splits: From the name of each split to its examples.
    class_names: Names in the order of the labels; None if classes are numbers.
    num_classes: Number of classes in all splits; 0 for none.
    max_labels: 1 if every example has one label, 0 if no example has any,
      otherwise the size of the largest set of labels.
    identity: Hash that changes when a number refers to another file or label.
    place: Real path that file names are relative to, or the name of a dataset
      on the hub: other files may have the same names.
    num_ignored: Number of files whose names are not those of images.
    has_captions: True if examples have captions.
    damaged: Incomplete files, each with its problem; their readable examples
      are in `splits`.
  """

  splits: Mapping[str, Split]
  class_names: tuple[str, ...] | None
  num_classes: int
  max_labels: int
  identity: str
  place: str
  num_ignored: int = 0
  has_captions: bool = False
  damaged: Sequence[tuple[str, str]] = ()
