"""Programs for one chip of v5e, which need not be here."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from vit_jax.aot import topology


def compiled(function: Callable[..., jax.Array], *inputs: Any) -> str:
  """Text of a function and the gradient of its sum by all of `inputs`."""

  def loss(*inputs):
    return jnp.sum(function(*inputs).astype(jnp.float32))

  chip = topology.devices(topology.parse("v5e:2x2"))[:1]
  mesh = jax.sharding.Mesh(chip, ("data",))
  where = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
  step = jax.jit(
    jax.value_and_grad(loss, argnums=tuple(range(len(inputs)))),
    in_shardings=where,
    out_shardings=where,
  )
  with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
    return step.lower(*inputs).compile().as_text()
