"""The order of a training stream in which all classes are equally frequent.

The stream is divided into windows of as many draws as there are classes, and
each window has every class once, in its own order. So window w has the w-th
draw from a class, and the examples of a class are traversed in one permutation
after the other. Class and example are functions of the seed and the row; only
the examples sorted by class are kept.
"""

import numpy as np

from vit_jax.data import order
from vit_jax.data.sources import Source
from vit_jax.errors import UserError

_KEY = "config.train.sampling = 'balanced'"
# Sources that provide `known_labels`.
KNOWING = (
  "image folders, CSV files, webdataset's tar files and Hugging Face datasets"
)


class BalancedOrder:
  """Examples at rows of a stream that draws from each class in turn.

  Attributes:
    classes: int64 [classes], the classes that have examples, ascending.
    counts: int64 [classes], the number of examples of each.

  Args:
    labels: Class of each example, int [n]; if negative, it is never drawn.
  """

  def __init__(self, labels: np.ndarray):
    classes, counts = np.unique(labels[labels >= 0], return_counts=True)
    self.classes, self.counts = classes.astype(np.int64), counts
    members = np.argsort(labels, kind="stable")[len(labels) - counts.sum() :]
    self._members = members.astype(np.min_scalar_type(-len(labels)))
    self._starts = np.cumsum(counts) - counts

  def example_ids(
    self, rows: np.ndarray, *, seed: int, repeats: int = 1
  ) -> np.ndarray:
    """Returns the examples at rows of the endless stream, int64 [m].

    Args:
      rows: int64 [m], any rows >= 0 in any order.
      seed: Seed of the run.
      repeats: Number of consecutive rows with the same example.
    """
    draws = np.asarray(rows, np.int64) // repeats
    num_classes = len(self.classes)
    window, slot = np.divmod(draws, num_classes)
    which = order.permute_within(
      slot,
      np.full_like(slot, num_classes),
      order.derive_key(seed, order.CLASSES, window),
    )
    counts = self.counts[which]
    passes, position = np.divmod(window, counts)
    member = order.permute_within(
      position,
      counts,
      order.derive_key(seed, order.MEMBERS, self.classes[which], passes),
    )
    return self._members[self._starts[which] + member].astype(np.int64)


def of_source(
  source: Source, *, renumbers: bool, dataset: str
) -> BalancedOrder:
  """Returns the balanced order of a source.

  Args:
    source: The training data.
    renumbers: True if an op of `train.preprocess` changes the classes.
    dataset: Name of the dataset, for messages.

  Raises:
    UserError: Examples have no class or several, or their classes are unknown
      without reading all of them.
  """
  if source.numbers:
    raise UserError(
      f"{_KEY} draws from every class in turn, and {dataset!r} has numbers to"
      " predict; leave it at 'uniform'."
    )
  if source.num_classes is None:
    raise UserError(
      f"{_KEY} draws from every class in turn, and {dataset!r} has no labels;"
      " leave it at 'uniform'."
    )
  if source.max_labels > 1:
    raise UserError(
      f"{_KEY} draws from every class in turn, and images of {dataset!r} have"
      f" up to {source.max_labels}; leave it at 'uniform'."
    )
  if renumbers:
    raise UserError(
      f"{_KEY} goes by the classes of {dataset!r}, which remap in"
      " config.train.preprocess changes; leave out one of the two."
    )
  labels = source.known_labels()
  if labels is None:
    raise UserError(
      f"{_KEY} requires the class of every image beforehand, which"
      f" {KNOWING} tell; of {dataset!r}, leave it at 'uniform' and weigh the"
      " classes by config.objective.class_weights, one for each."
    )
  return BalancedOrder(labels)
