"""Numbers of masked patches and crops that follow from a config."""

import dataclasses
import math

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.objectives.dino import views


@dataclasses.dataclass(frozen=True)
class Plan:
  """The shapes of masks.

  Attributes:
    group: Images per group.
    crops_per_image: Global crops per image.
    grid: Patches along a side of a global crop.
    num_masked: Number of masked crops per group.
    shares: Smallest and largest fraction of patches masked in each of these.
  """

  group: int
  crops_per_image: int
  grid: int
  num_masked: int
  shares: tuple[tuple[float, ...], tuple[float, ...]]

  @property
  def num_crops(self) -> int:
    """Global crops per group."""
    return self.group * self.crops_per_image

  @property
  def num_patches(self) -> int:
    """Patches per global crop."""
    return self.grid**2

  @property
  def bound(self) -> int:
    """Maximum number of masked patches per group, at least one."""
    _, high = self.shares
    return max(1, sum(int(share * self.num_patches) for share in high))


def of(config: schema.Config) -> Plan:
  """Returns the plan of a config whose views have been checked."""
  objective = config.objective
  family = registry.FAMILIES.get(config.model.name)
  model = config.model.updated(image_size=views.side(config, views.GLOBAL))
  grid, _ = family.grid(model)
  group = math.gcd(config.train.batch_size, objective.group)
  crops = views.count(config, views.GLOBAL)
  num_masked = int(group * crops * objective.mask_probability)
  low, high = objective.mask_ratio
  step = (high - low) / max(num_masked, 1)
  ends = [low + i * step for i in range(num_masked + 1)]
  return Plan(
    group, crops, grid, num_masked, (tuple(ends[:-1]), tuple(ends[1:]))
  )
