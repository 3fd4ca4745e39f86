"""Host arrays divided over the devices."""

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
  """Creates a global array; each process makes only its own parts.

  Args:
    shape: Shape of the whole array.
    sharding: Sharding of the array over the devices.
    part: Function that returns the part of the array at an index of the whole.
  """
  # The transfer is intentional, so a guard must allow it.
  with jax.transfer_guard_host_to_device("allow"):
    return jax.make_array_from_callback(shape, sharding, part)
