"""Numbers of masked patches and crops, as far as a config tells them."""

import dataclasses
import math

from vit_jax import registry
from vit_jax.config import schema
from vit_jax.objectives.dino import views


@dataclasses.dataclass(frozen=True)
class Plan:
  """The shapes of masks.

  Attributes:
    group: Images of a group.
    crops_per_image: Global crops of an image.
    grid: Patches along a side of a global crop.
    num_masked: Crops of a group that are masked.
    shares: Least and largest share of the patches of each of these that is
      masked.
  """

  group: int
  crops_per_image: int
  grid: int
  num_masked: int
  shares: tuple[tuple[float, ...], tuple[float, ...]]

  @property
  def num_crops(self) -> int:
    """Global crops of a group."""
    return self.group * self.crops_per_image

  @property
  def num_patches(self) -> int:
    """Patches of a global crop."""
    return self.grid**2

  @property
  def bound(self) -> int:
    """Masked patches of a group, at most, and at least one."""
    _, high = self.shares
    return max(1, sum(int(share * self.num_patches) for share in high))


def of(config: schema.Config) -> Plan:
  """The plan of a config whose views are checked."""
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
