"""TFDS split strings, such as 'train[:99%]' or 'train[:800]+test'.

TFDS parses and rounds them for every source, so that 'train[:99%]' has the same
number of examples in an image folder as in a TFDS dataset of the same size.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vit_jax.errors import UserError


@dataclasses.dataclass(frozen=True)
class Piece:
  """Records `start` to `stop` (excluded) of the split `name`."""

  name: str
  start: int
  stop: int


@dataclasses.dataclass(frozen=True)
class _SplitInfo:
  """The part of tfds.core.SplitInfo that TFDS's parser reads."""

  shard_lengths: Sequence[int]

  @property
  def num_examples(self) -> int:
    return sum(self.shard_lengths)


def resolve(
  split: str, shard_lengths: Mapping[str, Sequence[int]], *, dataset: str
) -> list[Piece]:
  """Returns the pieces that a split string stands for, in order.

  Args:
    split: Split string.
    shard_lengths: Number of records in each shard, by split; one shard for
      sources that have none. They matter to 'train[2shard:]' only.
    dataset: Name for messages.

  Raises:
    UserError: The string is malformed, a split is not there, a slice exceeds
      the split, or nothing is left.
  """
  infos = {name: _SplitInfo(n) for name, n in shard_lengths.items()}
  present = ", ".join(
    f"{name} ({info.num_examples} examples)" for name, info in infos.items()
  )
  instruction = parse(split)
  try:
    absolute = instruction.to_absolute(infos)
  except ValueError as error:
    reason = str(error).partition(". Should be")[0].rstrip(".")
    first = next(iter(infos), "train")
    raise UserError(
      f"Split {split!r} of {dataset}: {reason}. Present: {present}; a part of"
      f" one is '{first}[80%:]', and the rest of it '{first}[:80%]'."
    ) from None
  pieces = []
  for part in absolute:
    stop = infos[part.splitname].num_examples if part.to is None else part.to
    if (start := part.from_ or 0) < stop:
      pieces.append(Piece(part.splitname, start, stop))
  if not pieces:
    raise UserError(
      f"Split {split!r} of {dataset} has no examples. Present: {present}."
    )
  return pieces


def count(pieces: Sequence[Piece]) -> int:
  """Returns the number of records in all of `pieces`."""
  return sum(piece.stop - piece.start for piece in pieces)


def locate(
  pieces: Sequence[Piece], ids: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Maps record numbers of the whole to positions in the pieces' splits.

  Returns:
    int64 [n], numbers of pieces, and int64 [n], positions in their splits.
  """
  lengths = np.array([piece.stop - piece.start for piece in pieces])
  ends = np.cumsum(lengths)
  which = np.searchsorted(ends, ids, side="right")
  starts = np.array([piece.start for piece in pieces])
  return which, ids - (ends - lengths)[which] + starts[which]


def parse(split: str) -> Any:
  """Parses a split string into TFDS's form; reads no data.

  Raises:
    UserError: It is not a split string.
  """
  from tensorflow_datasets.core import splits

  try:
    return splits.AbstractSplit.from_spec(split)
  except (ValueError, NotImplementedError):
    raise UserError(
      f"{split!r} is not a split string; write 'train', 'train[:99%]',"
      " 'train[100:200]' or 'train[:800]+validation[:200]'."
    ) from None
