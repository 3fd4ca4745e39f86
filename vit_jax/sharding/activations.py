"""Placement of activations: the axes of the mesh for dimensions by name.

A model names the dimensions of the arrays between its blocks, with
`nn.with_logical_constraint`, and knows no mesh; outside of `on` the names say
nothing. What needs the mesh inside of a model, such as a kernel that runs on
each device's part, finds it as `jax.sharding.get_abstract_mesh()`.
"""

import functools
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
from jax.sharding import Mesh

from vit_jax.sharding.mesh import BATCH_AXES

# Dimensions without a rule are whole: were the partitioner free, it might split
# tokens as a parameter is split, and send them instead of the parameter. Heads
# of a kernel that `tensor` does not split are split by `fsdp`.
RULES = (("batch", BATCH_AXES), ("heads", "tensor"), ("fsdp_heads", "fsdp"))


def on(mesh: Mesh, function: Callable[..., Any]) -> Callable[..., Any]:
  """`function`, to be traced under jit, with its activations laid on `mesh`."""

  @functools.wraps(function)
  def laid_out(*args: Any, **kwargs: Any) -> Any:
    with (
      jax.sharding.use_abstract_mesh(mesh.abstract_mesh),
      nn.logical_axis_rules(RULES),
    ):
      return function(*args, **kwargs)

  return laid_out
