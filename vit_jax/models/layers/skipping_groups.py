"""Groups of examples, a fixed part of which skips each branch.

Imports neither jax nor flax, so that FLOPs can be counted without them.
"""

import dataclasses
import math

# Up to this rate, each example is drawn independently, as in dinov2's block.py.
_LEAST_RATE = 0.1


@dataclasses.dataclass(frozen=True)
class Groups:
  """Groups of examples, a fixed number of which skips a branch.

  Attributes:
    rate: Share of a group that skips it, below 1; rounded up to whole examples,
      but at least one is kept.
    size: Number of consecutive examples in a group; fewer if it does not divide
      the batch.
  """

  rate: float
  size: int

  @property
  def kept(self) -> int:
    """Number of examples of a full group that do not skip a branch."""
    return max(1, int(self.size * (1 - self.rate)))

  @classmethod
  def of(cls, rate: float, size: int | None) -> "Groups | None":
    """Groups of a layer; None if it draws each example independently."""
    if size is None or rate <= _LEAST_RATE:
      return None
    return cls(float(rate), size)

  def in_batch(self, num_examples: int) -> tuple[int, int]:
    """Size of the groups in a batch, and the number kept of each."""
    size = math.gcd(num_examples, self.size)
    return size, Groups(self.rate, size).kept


def of_layers(
  rate: float, kind: str, depth: int, size: int | None
) -> list[Groups | None]:
  """Returns the groups of each layer.

  Args:
    rate: Rate of the last layer.
    kind: 'constant' over the layers, or 'linear' from 0.
    depth: Number of layers.
    size: Number of examples in a group; None for no groups.
  """
  return [Groups.of(one, size) for one in rates(rate, kind, depth)]


def rates(rate: float, kind: str, depth: int) -> list[float]:
  """Returns the probability of each layer that an example skips a branch.

  Args: As of `of_layers`.
  """
  steps = max(depth - 1, 1)
  return [
    rate if kind == "constant" else rate * layer / steps
    for layer in range(depth)
  ]


def computed_share(groups: list[Groups | None]) -> float:
  """Share of all layers' branches that is computed."""
  shares = [1.0 if one is None else one.kept / one.size for one in groups]
  return sum(shares) / len(shares) if shares else 1.0
