"""A source without some of its examples, as a file lists them.

The file is {"source": FINGERPRINT, "examples": [NUMBER, ...]} in JSON, which
`vit_jax.deduplicate` writes. Numbers are those of the records of one split, so
the fingerprint has to be that of the source.
"""

import dataclasses
import hashlib
import json
from collections.abc import Iterable
from typing import Any

import numpy as np
from etils import epath

from vit_jax import buckets, records
from vit_jax.data.sources import LocatingSource, Source
from vit_jax.errors import UserError


def write(
  path: epath.PathLike, source: Source, examples: Iterable[int]
) -> None:
  """Writes the list of the examples of a source that are to be left out.

  Raises:
    OSError: it cannot be written.
  """
  content = {"source": source.fingerprint, "examples": sorted(examples)}
  records.write_text(path, json.dumps(content) + "\n")


def without(source: Source, path: str, *, key: str) -> "Remaining":
  """The examples of a source that a file does not list.

  Args:
    source: all examples.
    path: of the file.
    key: the config key that names it, for messages.

  Raises:
    UserError: it cannot be read, is of other data, or leaves nothing.
  """
  start = f"{key} = {path!r}"
  buckets.check(path)
  try:
    text = epath.Path(path).expanduser().read_text()
  except OSError as error:
    raise UserError(
      f"{start} cannot be read ({error.strerror or error}); name a file that"
      " python -m vit_jax.deduplicate has written."
    ) from None
  fingerprint, examples = _parsed(text)
  if fingerprint is None:
    raise UserError(
      f'{start} is no list of examples, {{"source": TEXT, "examples":'
      " [NUMBER, ...]}, as python -m vit_jax.deduplicate writes it."
    )
  if fingerprint != source.fingerprint:
    raise UserError(
      f"{start} was made of other data ({fingerprint}) than are trained on"
      f" ({source.fingerprint}); run python -m vit_jax.deduplicate on this"
      " dataset and split."
    )
  examples = np.unique(np.asarray(examples, np.int64))
  outside = examples[(examples < 0) | (examples >= source.num_examples)]
  if outside.size:
    raise UserError(
      f"{start} lists example {outside[0]}; there are 0 to"
      f" {source.num_examples - 1}."
    )
  if examples.size == source.num_examples:
    raise UserError(f"{start} lists all examples, so that none is left.")
  if isinstance(source, LocatingSource):
    return RemainingLocated(source, examples)
  return Remaining(source, examples)


def _parsed(text: str) -> tuple[str | None, list[int]]:
  """Fingerprint and numbers; (None, []) if the text is of another form."""
  try:
    value: Any = json.loads(text)
    fingerprint, examples = value["source"], value["examples"]
  except (ValueError, RecursionError, TypeError, KeyError):
    return None, []
  if not isinstance(fingerprint, str) or not isinstance(examples, list):
    return None, []
  if any(type(example) is not int for example in examples):
    return None, []
  return fingerprint, examples


@dataclasses.dataclass(frozen=True)
class Remaining:
  """A source with examples left out; attributes as in `sources.Source`.

  Attributes:
    source: all examples.
    left_out: their numbers, int64 [m], ascending, each once.
  """

  source: Source
  left_out: np.ndarray

  @property
  def num_examples(self) -> int:
    return self.source.num_examples - len(self.left_out)

  @property
  def num_classes(self) -> int:
    return self.source.num_classes

  @property
  def class_names(self) -> tuple[str, ...] | None:
    return self.source.class_names

  @property
  def max_labels(self) -> int:
    return self.source.max_labels

  @property
  def image_shape(self) -> tuple[int, int, int] | None:
    return self.source.image_shape

  @property
  def fingerprint(self) -> str:
    content = self.left_out.astype("<i8").tobytes()
    digest = hashlib.sha256(content).hexdigest()[:16]
    return f"{self.source.fingerprint}:without:{len(self.left_out)}:{digest}"

  def read(self, ids: np.ndarray) -> dict[str, np.ndarray]:
    """See `sources.Source.read`."""
    return self.source.read(self._originals(ids))

  def names(self, ids: np.ndarray) -> list[str]:
    """See `sources.Source.names`."""
    return self.source.names(self._originals(ids))

  def _originals(self, ids: np.ndarray) -> np.ndarray:
    """Numbers in the whole source of those that remain."""
    # So many of those that remain stand before each that is left out.
    before = self.left_out - np.arange(len(self.left_out))
    return ids + np.searchsorted(before, ids, side="right")


class RemainingLocated(Remaining):
  """The same of a `sources.LocatingSource`."""

  source: LocatingSource

  def read_or_locate(self, ids: np.ndarray) -> dict[str, np.ndarray]:
    """See `sources.LocatingSource.read_or_locate`."""
    return self.source.read_or_locate(self._originals(ids))
