"""Examples that replace unreadable ones.

If the example of a row of the stream fails, the row gets the dataset's next
example that does not fail there; the first follows the last. The choice depends
only on the row and the data, so every process makes the same one at any time,
which a filter in tf.data, `ignore_errors`, could not guarantee: it would shift
the following rows. It depends on the row because crops above the damage of a
truncated image can be decoded.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from vit_jax import truncate
from vit_jax.errors import UserError

KEY = "config.train.max_bad_examples"

_logger = logging.getLogger(__name__)


class UnusableError(UserError):
  """More examples are unusable than allowed."""


class Substitutes:
  """Known bad examples and their substitutes.

  Attributes:
    limit: Number of bad examples tolerated.
    suspects: Numbers of the examples found to be damaged, or `known`, i.e.
      replaced in an earlier part of the run.
  """

  def __init__(
    self, num_examples: int, *, limit: int, known: Iterable[int] = ()
  ):
    self.limit = limit
    self._num_examples = num_examples
    # First row in which each example failed.
    self._first_rows = dict.fromkeys(known, -1)
    self._lock = threading.Lock()
    self.suspects = frozenset(self._first_rows)

  def suspect(self, problems: Mapping[int, str]) -> bool:
    """Adds damaged examples, given their problems; True if any is new."""
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
    """Returns the examples to read in rows of the stream instead of `ids`.

    All are int64 [n]; `fails(example, row)` is True if a suspect cannot be used
    in the row.
    """
    if not self.suspects:
      return ids
    found = ids.copy()
    for place in np.flatnonzero(np.isin(ids, list(self.suspects))):
      row, example = int(rows[place]), int(ids[place])
      found[place] = self._substitute(row, example, fails)
    return found

  def met(self, before: int) -> list[int]:
    """Returns the examples replaced in rows before the given one, sorted."""
    with self._lock:
      return sorted(i for i, row in self._first_rows.items() if row < before)

  def _substitute(
    self, row: int, example: int, fails: Callable[[int, int], bool]
  ) -> int:
    # One more than tolerated, so that the excess is noticed.
    for _ in range(self.limit + 1):
      if example not in self.suspects or not fails(example, row):
        break
      with self._lock:
        first = self._first_rows.get(example, row)
        self._first_rows[example] = min(first, row)
      example = (example + 1) % self._num_examples
    return example


def too_many(names: list[str], limit: int) -> UserError:
  """Returns the error for more bad examples than tolerated."""
  return UserError(
    f"{len(names)} examples could not be used, more than {KEY} = {limit}:"
    f" {truncate.first(names, separator='; ')}. Replace or remove them, or"
    f" raise {KEY}."
  )


def found_unusable(problems: list[str], num_examples: int) -> UnusableError:
  """Returns the error for examples that prevent opening the data."""
  count = len(problems)
  advice = "Fix or remove them"
  if count < num_examples:
    advice += (
      f"; of training data, {KEY} = {count} lets others take their place"
    )
  return UnusableError(
    f"{count} of the examples cannot be used:"
    f" {truncate.first(problems, separator='; ')}. {advice}."
  )
