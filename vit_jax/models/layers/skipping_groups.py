"""Groups of examples of which a fixed part skips each branch.

Imports neither jax nor flax, so that FLOPs are counted without them.
"""

import dataclasses
import math

# Rates up to this one draw each example by itself, as in dinov2's block.py.
_LEAST_RATE = 0.1


@dataclasses.dataclass(frozen=True)
class Groups:
  """Groups of examples of which a fixed number skips a branch.

  Attributes:
    rate: Share of a group that skips it, below 1; rounded up to whole examples,
      of which at least one is kept.
    size: Examples of a group, which follow one another in the batch; less
      where that does not divide the batch.
  """

  rate: float
  size: int

  @property
  def kept(self) -> int:
    """Examples of a whole group that do not skip a branch."""
    return max(1, int(self.size * (1 - self.rate)))

  @classmethod
  def of(cls, rate: float, size: int | None) -> "Groups | None":
    """Groups of a layer; None if it draws each example by itself."""
    if size is None or rate <= _LEAST_RATE:
      return None
    return cls(float(rate), size)

  def in_batch(self, num_examples: int) -> tuple[int, int]:
    """Size of the groups of a batch, and how many of each are kept."""
    size = math.gcd(num_examples, self.size)
    return size, Groups(self.rate, size).kept


def of_layers(
  rate: float, kind: str, depth: int, size: int | None
) -> list[Groups | None]:
  """Groups of each layer.

  Args:
    rate: Rate of the last layer.
    kind: 'constant' over the layers, or 'linear' from 0.
    depth: Number of layers.
    size: Examples of a group; None: there are no groups.
  """
  steps = max(depth - 1, 1)
  rates = [
    rate if kind == "constant" else rate * layer / steps
    for layer in range(depth)
  ]
  return [Groups.of(rate, size) for rate in rates]


def computed_share(groups: list[Groups | None]) -> float:
  """Share of the branches of all layers that is computed."""
  shares = [1.0 if one is None else one.kept / one.size for one in groups]
  return sum(shares) / len(shares) if shares else 1.0
