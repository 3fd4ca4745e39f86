"""Examples that an input offers by number, and their classes."""

import abc
import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from vit_jax.data import folder_listing


class Readable(abc.ABC):
  """One record to write, from wherever it is read; can be pickled.

  Attributes:
    name: Its name in the input.
    labels: Numbers of its classes, each once.
  """

  name: str
  labels: tuple[int, ...]

  @abc.abstractmethod
  def read(self) -> bytes:
    """Reads the encoded image.

    Raises:
      OSError, ValueError: It is not there, or must not be read.
    """

  def captions(self) -> tuple[str, ...]:
    """Captions of the image; files of images have none."""
    return ()


@dataclasses.dataclass(frozen=True)
class Example(Readable):
  """A record whose image lies in a file.

  Attributes:
    name: Class and file, or path, as in the input.
    labels: Numbers of its classes, each once.
    path: File that holds the image.
    root: Real path of the directory that `path` must not lead out of.
    offset: Position of the image in the file, bytes; -1 for what has the name
      of an image and is not a file.
    size: Bytes of the image; None: all of the file.
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
  """The examples of a split, in an order that is always the same.

  `examples` maps numbers, int64 [n], to the examples; lists of files are long,
  so only those of a shard exist at once.
  """

  num_examples: int
  examples: Callable[[np.ndarray], Sequence[Readable]]


@dataclasses.dataclass(frozen=True)
class Inputs:
  """All examples of an input.

  Attributes:
    splits: From the name of each split to its examples.
    class_names: Names in the order of the labels; None: classes are numbers.
    num_classes: Number of classes in all splits; 0: there are none.
    max_labels: 1 if every example has one label, 0 if none has any, else the
      size of the largest set of labels.
    identity: Hash that changes when a number stands for another file or label.
    place: Real path that the files are named from, or the name of a dataset of
      the hub: other files may have the same names.
    num_ignored: Number of files that are no images by their names.
    has_captions: Whether examples have captions.
    damaged: Files that are not whole, each with what is wrong; their examples
      that can be read are in `splits`.
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
