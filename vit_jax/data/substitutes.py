"""Examples that stand in for those that cannot be read.

A row of the stream whose example fails there is filled with the next example
of the dataset that does not; the last one is followed by the first. Which one
that is depends on the row and the data alone, so any process finds the same at
any time. It depends on the row, for of an image that is cut off a crop above
the damage can be decoded.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from vit_jax import truncate
from vit_jax.errors import UserError

KEY = "config.train.max_bad_examples"

_logger = logging.getLogger(__name__)


class Substitutes:
  """The bad examples that are known, and what stands in their place.

  Attributes:
    limit: bad examples that are put up with.
    suspects: numbers of the examples that were found to be damaged.

  Args:
    num_examples: of the source.
    limit: bad examples that are put up with.
    known: examples that an earlier part of the run has replaced.
  """

  def __init__(
    self,
    num_examples: int,
    *,
    limit: int,
    known: Iterable[int] = (),
  ):
    self.limit = limit
    self._num_examples = num_examples
    # Example -> the first row that it failed in.
    self._first_rows = dict.fromkeys(known, -1)
    self._lock = threading.Lock()
    self.suspects = frozenset(self._first_rows)

  def suspect(self, problems: Mapping[int, str]) -> bool:
    """Takes up damaged examples: number -> problem; whether any is new."""
    new = problems.keys() - self.suspects
    for example in sorted(new):
      _logger.warning(
        "%s: the next example takes its place.", problems[example]
      )
    self.suspects |= new
    return bool(new)

  def replace(
    self,
    rows: np.ndarray,
    ids: np.ndarray,
    fails: Callable[[int, int], bool],
  ) -> np.ndarray:
    """The examples to read in `rows` instead of `ids`; int64 [n] all.

    Args:
      rows: of the stream.
      ids: the examples that stand there.
      fails: (example, row) -> whether a suspect cannot be used in that row.
    """
    if not self.suspects:
      return ids
    found = ids.copy()
    for place in np.flatnonzero(np.isin(ids, list(self.suspects))):
      row, example = int(rows[place]), int(ids[place])
      found[place] = self._stand_in(row, example, fails)
    return found

  def met(self, before: int) -> list[int]:
    """Examples replaced in the rows before the given one, ascending."""
    with self._lock:
      return sorted(i for i, row in self._first_rows.items() if row < before)

  def _stand_in(
    self, row: int, example: int, fails: Callable[[int, int], bool]
  ) -> int:
    # One more than allowed, so that the excess is seen.
    for _ in range(self.limit + 1):
      if example not in self.suspects or not fails(example, row):
        break
      with self._lock:
        first = self._first_rows.get(example, row)
        self._first_rows[example] = min(first, row)
      example = (example + 1) % self._num_examples
    return example


def too_many(names: list[str], limit: int) -> UserError:
  """What to say of more bad examples than are put up with."""
  return UserError(
    f"{len(names)} examples could not be used, more than {KEY} = {limit}:"
    f" {truncate.first(names, separator='; ')}. Replace or remove them, or"
    f" raise {KEY}."
  )
