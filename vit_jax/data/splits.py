"""Split strings as in TFDS, such as 'train[:99%]' or 'train[:800]+test'.

They are parsed and rounded here, as in TFDS, for every source: 'train[:99%]'
has the same number of examples in an image folder as in a TFDS dataset of the
same size, and code that needs only a dataset's size does not need TFDS.
"""

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from vit_jax.errors import UserError
from vit_jax.suggestions import did_you_mean

_ALL = "all"  # Every split of the dataset.
# Names of evaluation splits; a dataset often has only one of them.
_HELD_OUT = ("test", "validation", "valid", "val")
_PART = re.compile(r"([\w-]+)(?:\[([^\[\]]+)\])?")
_BOUND = re.compile(r"(?:(-?[\d_.]+)(%|shard)?)?")


@dataclasses.dataclass(frozen=True)
class Piece:
  """Records `start` to `stop` (excluded) of the split `name`."""

  name: str
  start: int
  stop: int


@dataclasses.dataclass(frozen=True)
class Part:
  """A part of a split as written.

  Attributes:
    name: Name of the split, or 'all'.
    start: Start in `unit`, from the end if negative; None for 0.
    stop: Stop in `unit`, from the end if negative; None for the end.
    unit: '' for records, '%' or 'shard'.
  """

  name: str
  start: int | float | None = None
  stop: int | float | None = None
  unit: str = ""

  def piece(self, shard_lengths: Sequence[int]) -> Piece:
    """Returns the records, given the number of records in each shard.

    Raises:
      ValueError: It begins or ends outside the split.
    """
    total = sum(shard_lengths)
    bounds = self.start, self.stop
    if self.unit == "%":
      bounds = (x if x is None else round(x * total / 100) for x in bounds)
    elif self.unit == "shard":
      start, stop = bounds
      if stop is not None and stop <= 0:
        stop += len(shard_lengths)
      bounds = (
        x if x is None else sum(shard_lengths[:x]) for x in (start, stop)
      )
    start, stop = bounds
    start, stop = start or 0, total if stop is None else stop
    if max(abs(start), abs(stop)) > total:
      raise ValueError(
        f"Requested slice [{start or ''}:{stop or ''}] incompatible with"
        f" {total} examples"
      )
    start, stop = (x + total if x < 0 else x for x in (start, stop))
    return Piece(self.name, start, stop)


def resolve(
  split: str, shard_lengths: Mapping[str, Sequence[int]], *, dataset: str
) -> list[Piece]:
  """Returns the pieces of a split string, in order.

  Args:
    split: Split string.
    shard_lengths: Number of records in each shard, by split; one shard for
      sources without shards. Shards matter only for 'train[2shard:]'.
    dataset: Name of the dataset, for messages.

  Raises:
    UserError: The string is malformed, a split does not exist, a slice exceeds
      the split, or the result is empty.
  """
  present = ", ".join(
    f"{name} ({sum(lengths)} examples)"
    for name, lengths in shard_lengths.items()
  )
  pieces = []
  for part in parse(split):
    names = shard_lengths if part.name == _ALL else [part.name]
    for name in names:
      if name not in shard_lengths:
        raise UserError(
          f"{dataset} has no split {name!r}.{_near(name, shard_lengths)}"
          f" Present: {present}; {_parts(shard_lengths)}"
        )
      try:
        piece = dataclasses.replace(part, name=name).piece(shard_lengths[name])
      except ValueError as error:
        raise UserError(
          f"Split {split!r} of {dataset}: {error}. Present: {present};"
          f" {_parts(shard_lengths)}"
        ) from None
      if piece.start < piece.stop:
        pieces.append(piece)
  if not pieces:
    raise UserError(
      f"Split {split!r} of {dataset} has no examples. Present: {present}."
    )
  return pieces


def _near(name: str, present: Collection[str]) -> str:
  """A sentence with the likely intended split, if any."""
  same = [one for one in _HELD_OUT if one in present and name in _HELD_OUT]
  near = did_you_mean(name, same or list(present), 0.0 if same else 0.4)
  return "" if near is None else f" Did you mean {near!r}?"


def _parts(present: Collection[str]) -> str:
  """The end of a sentence that shows how to divide a split in two."""
  name = "train" if "train" in present else next(iter(present), "train")
  return (
    f"'{name}[:80%]' and '{name}[80%:]' are parts of one, to train on and to"
    " evaluate on."
  )


def count(pieces: Sequence[Piece]) -> int:
  """Returns the number of records in all of `pieces`."""
  return sum(piece.stop - piece.start for piece in pieces)


def locate(
  pieces: Sequence[Piece], ids: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Maps overall record numbers to positions in the pieces' splits.

  Returns:
    int64 [n], numbers of pieces, and int64 [n], positions in their splits.
  """
  lengths = np.array([piece.stop - piece.start for piece in pieces])
  ends = np.cumsum(lengths)
  which = np.searchsorted(ends, ids, side="right")
  starts = np.array([piece.start for piece in pieces])
  return which, ids - (ends - lengths)[which] + starts[which]


def parse(split: str) -> list[Part]:
  """Parses a split string without reading data.

  Raises:
    UserError: It is not a split string.
  """
  try:
    return [_part(text) for text in re.split(r"\s*\+\s*", split)]
  except ValueError:
    raise UserError(
      f"{split!r} is not a split string; write 'train', 'train[:99%]',"
      " 'train[100:200]' or 'train[:800]+validation[:200]'."
    ) from None


def _part(text: str) -> Part:
  """Parses a split or a slice of it; raises ValueError for other text."""
  found = _PART.fullmatch(text)
  if not found:
    raise ValueError(text)
  name, inside = found.groups()
  if inside is None:
    return Part(name)
  bounds = [_BOUND.fullmatch(bound) for bound in inside.split(":")]
  if name == _ALL or None in bounds or not any(b.group() for b in bounds):
    raise ValueError(text)
  # The unit of one bound applies to both.
  unit = next(filter(None, (bound[2] for bound in bounds)), "")
  number = float if unit == "%" else int
  values = [number(bound[1]) if bound[1] else None for bound in bounds]
  if len(values) == 1 and unit == "shard":
    values.append(values[0] + 1)
  if len(values) != 2:
    raise ValueError(text)
  if unit == "%" and max(abs(value or 0) for value in values) > 100:
    raise ValueError(text)
  return Part(name, *values, unit)
