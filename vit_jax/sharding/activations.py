"""Placement of activations: mesh axes for named dimensions.

A model names the dimensions of the arrays between its blocks with
`nn.with_logical_constraint` and does not know the mesh; outside of `on` the
names have no effect. Code inside a model that needs the mesh, such as a kernel
that runs on each device's part, gets it from
`jax.sharding.get_abstract_mesh()`.
"""

import functools
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
from jax.sharding import Mesh

from vit_jax.sharding.mesh import BATCH_AXES

# Dimensions without a rule are not split: if the partitioner were free, it
# might split tokens like a parameter and send them instead of the parameter.
# Heads of a kernel that `tensor` does not split are split by `fsdp`.
RULES = (("batch", BATCH_AXES), ("heads", "tensor"), ("fsdp_heads", "fsdp"))


def on(mesh: Mesh, function: Callable[..., Any]) -> Callable[..., Any]:
  """Wraps `function`, for tracing under jit, to place activations on `mesh`."""

  @functools.wraps(function)
  def laid_out(*args: Any, **kwargs: Any) -> Any:
    with (
      jax.sharding.use_abstract_mesh(mesh.abstract_mesh),
      nn.logical_axis_rules(RULES),
    ):
      return function(*args, **kwargs)

  return laid_out
