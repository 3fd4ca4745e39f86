"""The filters that meet the pixels, by their principal components.

Figure 7, left, of arXiv 2010.11929.
"""

import dataclasses

import numpy as np
from jaxtyping import Float

from vit_jax.inspection import principal_components
from vit_jax.inspection.network import Network
from vit_jax.models import build


@dataclasses.dataclass(frozen=True)
class Filters:
  """Principal components of filters.

  Attributes:
    components: Principal components, each of the size of a filter.
    shares: Share of the filters' variance of each component, in [0, 1].
    num_filters: Number of filters that they are computed from.
  """

  components: Float[np.ndarray, "k y x c"]
  shares: Float[np.ndarray, " k"]
  num_filters: int


def find(network: Network, count: int) -> Filters:
  """The first components of a network's first filters.

  Those of a Vision Transformer embed the patches; a hybrid and a ResNet have
  the standardised filters of their root.
  """
  return principal_filters(first_kernel(network), count)


def first_kernel(network: Network) -> Float[np.ndarray, "y x c k"]:
  """The kernel that is multiplied with pixels, k filters."""
  family = build.family_of(network.module)
  filters = family.pixel_filters(network.module, network.params)
  return np.asarray(filters, np.float32)


def principal_filters(
  kernel: Float[np.ndarray, "y x c k"], count: int
) -> Filters:
  """The first `count` components of the k filters, from their mean."""
  *shape, num_filters = kernel.shape
  found = principal_components.find(kernel.reshape(-1, num_filters).T, count)
  return Filters(
    components=found.directions.reshape(-1, *shape),
    shares=found.shares,
    num_filters=num_filters,
  )
