"""What every form of input offers: examples by number, and their classes."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np


class UnusableImage(Exception):
  """An image that cannot be used.

  Attributes:
    name: what it would be called in the dataset.
    reason: why not, in a few words.
  """

  def __init__(self, name: str, reason: str):
    super().__init__(name, reason)
    self.name = name
    self.reason = reason


@dataclasses.dataclass(frozen=True)
class Example:
  """What one record holds.

  Attributes:
    name: class and file, or path, as the input has it.
    image: the encoded file, byte for byte.
    labels: numbers of its classes, each once.
  """

  name: str
  image: bytes
  labels: tuple[int, ...]


@runtime_checkable
class Place(Protocol):
  """Where one example lies; sent to the process that reads it."""

  def read(self) -> Example:
    """Reads it, and nothing outside of the directories that were named.

    Raises:
      UnusableImage: it is not there or must not be read.
    """
    ...


@runtime_checkable
class Places(Protocol):
  """The examples of one split in an order that is always the same."""

  def __len__(self) -> int: ...

  def places(self, ids: np.ndarray) -> Sequence[Place]:
    """Where the examples of these numbers lie; ids: int64 [n]."""
    ...


@dataclasses.dataclass(frozen=True)
class Inputs:
  """All examples that are to be written.

  Attributes:
    splits: name of each split -> its examples.
    class_names: in the order of the labels; None: classes have only numbers.
    num_classes: of all splits.
    max_labels: 1: every example has one label; more: sets of up to as many.
    identity: a hash that is the same as long as the numbers of all examples
      mean the same files and labels.
    num_ignored: files that are no images by their names.
  """

  splits: Mapping[str, Places]
  class_names: tuple[str, ...] | None
  num_classes: int
  max_labels: int
  identity: str
  num_ignored: int = 0
