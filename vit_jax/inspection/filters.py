"""Principal components of a network's first filters.

Figure 7, left, of arXiv 2010.11929.
"""

import numpy as np
from jaxtyping import Float

from vit_jax.inspection import principal_components
from vit_jax.inspection.network import Network
from vit_jax.models import build


def first_kernel(network: Network) -> Float[np.ndarray, "y x c k"]:
  """Returns the kernel that is applied to pixels, with k filters.

  For a Vision Transformer, it embeds the patches; for a hybrid or a ResNet, it
  has the standardised filters of the root.
  """
  family = build.family_of(network.module)
  filters = family.pixel_filters(network.module, network.params)
  return np.asarray(filters, np.float32)


def principal_filters(
  kernel: Float[np.ndarray, "y x c k"], count: int
) -> tuple[Float[np.ndarray, "n y x c"], Float[np.ndarray, " n"]]:
  """Computes the first `count` principal components of k filters.

  Returns:
    Components with the shape of a filter, and the fraction of the filters'
    variance that each explains, in [0, 1].
  """
  *shape, num_filters = kernel.shape
  found = principal_components.find(kernel.reshape(-1, num_filters).T, count)
  return found.directions.reshape(-1, *shape), found.shares
