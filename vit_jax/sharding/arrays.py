"""Arrays of the host, divided over the devices."""

from collections.abc import Callable

import jax
import numpy as np
from jax.sharding import Sharding
from jaxtyping import Array


def divided(
  shape: tuple[int, ...],
  sharding: Sharding,
  part: Callable[[tuple[slice, ...]], np.ndarray],
) -> Array:
  """A global array, of which each process makes its own parts only.

  Args:
    shape: Shape of the whole array.
    sharding: Sharding of the array over the devices.
    part: Returns the part of the array at an index of the whole.
  """
  # It is wanted here, whatever a guard says of transfers by accident.
  with jax.transfer_guard_host_to_device("allow"):
    return jax.make_array_from_callback(shape, sharding, part)
